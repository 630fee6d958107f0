"""The shipped model with ears: what it can do, and that it is made as its folder says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.nano.hearing import HearingPretraining, lesson, pretrain_hearing, question_about, record
from hocket.nano.sound import build_processor
from hocket.policies.causal_lm import CausalLM
from hocket.tasks.tones import NOTES, Tones
from hocket.types import Decoding


def accuracy(policy: CausalLM, style: str, kinds: tuple[str, ...], n: int = 40) -> float:
    """The share of right greedy answers to unseen questions that begin with `style`."""
    task, chat = Tones(kinds), Chat(policy.tokenizer)
    scenarios = [task.scenario("eval", number) for number in range(n)]
    begun = chat.encode(style)
    way = Decoding(temperature=0.0, max_tokens=32)
    requests = [Request(chat.opening(one.messages), way, Key.of(0), prefix=begun) for one in scenarios]
    samples = LocalEngine(policy).sample(requests)
    said = [chat.reply_text(sample.tokens.tolist()) for sample in samples]
    return sum(task.verify(text, one) == 1.0 for text, one in zip(said, scenarios, strict=True)) / n


@pytest.mark.slow
def test_pretraining_makes_a_folder_that_loads(tmp_path: Path) -> None:
    settings = HearingPretraining(recordings=4, tower_steps=1, steps=1, rows=2, measured=3)
    summary = pretrain_hearing(settings, tmp_path / "made")
    assert len(summary["greedy"]) == 13
    assert CausalLM.from_pretrained(tmp_path / "made", key=Key.of(0)).tokenizer.picture_reader.token == "<audio>"


def test_lessons_are_of_two_styles_and_questions_fit_their_melody() -> None:
    task, rng, settings = Tones(), Key.of(0).numpy(), HearingPretraining()
    shares = {"worked": 0, "right": 0, "all": 0}
    for _ in range(300):
        question = question_about(task, task.draw(rng, "notes"), rng)
        melody = task.draw(rng, "longest")
        question = task.ask(melody, "highest", rng)
        text = lesson(task, melody, question, rng, settings)
        shares["all"] += 1
        shares["worked"] += "<think>" in text
        shares["right"] += task.extracted(text) == question.answer
    assert 0.15 < shares["worked"] / shares["all"] < 0.35
    assert 0.4 < shares["right"] / shares["all"] < 0.7


def test_the_tower_is_taught_the_notes_that_sound() -> None:
    """Tokens with a note are loud near its pitch, and the others are not."""
    heard = record(build_processor(), 6, "pretrain", Key.of(0))
    loud = heard.mel.amax(1).unflatten(1, (16, 4))[:, :, 1:3].mean(-1)
    sounding = heard.notes > 0
    assert loud[sounding].mean() > loud[~sounding].mean() + 0.3
    for melody, notes in zip(heard.melodies, heard.notes.tolist(), strict=True):
        runs = [note for place, note in enumerate(notes) if note and (place == 0 or notes[place - 1] != note)]
        assert [list(NOTES)[note - 1] for note in runs] == [
            tone.note for tone in melody if list(NOTES).index(tone.note) + 1 in runs
        ]
        assert np.count_nonzero(notes) <= sum(tone.units for tone in melody) + len(melody)

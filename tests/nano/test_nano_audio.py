"""The shipped model with ears: what it can do, and that it is made as its folder says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.nano import HEARING
from hocket.nano.hearing import SoundPretraining, lesson, pretrain_hearing, questions_about, record
from hocket.nano.sound import build_processor
from hocket.policies.causal_lm import CausalLM
from hocket.policies.sound_reader import SoundReader
from hocket.tasks.tones import NOTES, Tones
from hocket.types import Decoding

WORKED, AT_ONCE, SILENT = 0.6, 0.6, 0.4
"""Shares of right answers."""


def mean_reward(policy: CausalLM, task: Tones, n: int, begun: str) -> float:
    """The mean reward of greedy answers to `n` questions of evaluation, which begin with `begun`."""
    chat, way = Chat(policy.tokenizer), Decoding(temperature=0.0, max_tokens=task.longest)
    scenarios = [task.scenario("eval", number) for number in range(n)]
    prefix = chat.encode(begun)
    requests = [Request(chat.opening(each.messages), way, Key.of(0), prefix=prefix) for each in scenarios]
    texts = [chat.reply_text(sample.tokens.tolist()) for sample in LocalEngine(policy).sample(requests)]
    return sum(task.verify(text, each) for text, each in zip(texts, scenarios, strict=True)) / n


def test_worked_answers_are_right_and_others_mostly_guessed() -> None:
    """So there is something to learn, and it is in the sound."""
    policy = CausalLM.from_pretrained(HEARING, key=Key.of(0))
    task = Tones(("count", "longest"))
    assert mean_reward(policy, task, 40, "<think>") > WORKED
    assert 0.2 < mean_reward(policy, task, 40, "<answer>") < AT_ONCE
    policy.tokenizer.picture_reader.blind = True
    assert mean_reward(policy, task, 40, "<think>") < SILENT
    assert sum(file.stat().st_size for file in HEARING.iterdir()) < 6_000_000
    assert not [file.name for file in HEARING.glob("*config.json") if '"/' in file.read_text()]


@pytest.mark.slow
def test_pretraining_makes_a_folder_that_loads(tmp_path: Path) -> None:
    settings = SoundPretraining(recordings=4, tower_steps=1, tower_rows=2, steps=1, rows=2)
    pretrain_hearing(settings, tmp_path / "made")
    assert CausalLM.from_pretrained(tmp_path / "made", key=Key.of(0)).tokenizer.picture_reader.token == "<audio>"


def test_lessons_are_of_two_styles_and_questions_fit_their_melody() -> None:
    task, rng, settings = Tones(), Key.of(0).numpy(), SoundPretraining()
    shares = {"worked": 0, "right": 0, "all": 0}
    for _ in range(300):
        melody = task.draw(rng, "longest")
        question = task.ask(melody, "highest", rng)
        text = lesson(task, melody, question, rng, settings)
        shares["all"] += 1
        shares["worked"] += "<think>" in text
        shares["right"] += task.extracted(text) == question.answer
    assert 0.15 < shares["worked"] / shares["all"] < 0.35
    assert 0.4 < shares["right"] / shares["all"] < 0.7
    for _ in range(20):
        melody = task.draw(rng, "notes")
        kinds = {question.kind for question in questions_about(task, melody, rng)}
        assert {"notes", "count"} <= kinds
        assert ("highest" in kinds) == ("option" in kinds) == (len(melody) > 1)
        lengths = sorted(tone.units for tone in melody)
        assert ("longest" in kinds) == (len(melody) > 1 and lengths[-1] > lengths[-2])


def test_the_tower_is_taught_the_notes_that_sound() -> None:
    """Tokens with a note are loud near its pitch, and the others are not."""
    heard = record(SoundReader(build_processor()), 6, "pretrain", Key.of(0))
    loud = heard.mel.amax(1).unflatten(1, (16, 4))[:, :, 1:3].mean(-1)
    sounding = heard.notes > 0
    assert loud[sounding].mean() > loud[~sounding].mean() + 0.3
    for melody, notes in zip(heard.melodies, heard.notes.tolist(), strict=True):
        runs = [note for place, note in enumerate(notes) if note and (place == 0 or notes[place - 1] != note)]
        assert [list(NOTES)[note - 1] for note in runs] == [
            tone.note for tone in melody if list(NOTES).index(tone.note) + 1 in runs
        ]
        assert np.count_nonzero(notes) <= sum(tone.units for tone in melody) + len(melody)

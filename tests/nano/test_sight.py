"""The shipped model with eyes: what it can do, and that it is made as its folder says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.nano import SIGHT
from hocket.nano.sight import SightPretraining, lesson, pretrain_sight
from hocket.nano.worlds import READ, WORLDS, WorldPretraining, drawn
from hocket.policies.causal_lm import CausalLM
from hocket.tasks.digits import Digits
from hocket.types import Decoding


def accuracy(policy: CausalLM, style: str, n: int = 60) -> float:
    """The share of right greedy answers to unseen questions that begin with `style`."""
    task, chat = Digits(), Chat(policy.tokenizer)
    scenarios = [task.scenario("eval", number) for number in range(n)]
    begun = chat.encode(style)
    way = Decoding(temperature=0.0, max_tokens=32)
    requests = [Request(chat.opening(one.messages), way, Key.of(0), prefix=begun) for one in scenarios]
    samples = LocalEngine(policy).sample(requests)
    said = [chat.reply_text(sample.tokens.tolist()) for sample in samples]
    return sum(task.verify(text, one) for text, one in zip(said, scenarios, strict=True)) / n


def test_worked_answers_are_right_and_others_mostly_guessed() -> None:
    """So there is something to learn, and it is in the picture."""
    policy = CausalLM.from_pretrained(SIGHT, key=Key.of(0))
    assert accuracy(policy, "<think>") > 0.85
    assert 0.3 < accuracy(policy, "<answer>") < 0.75
    policy.tokenizer.picture_reader.blind = True
    assert accuracy(policy, "<think>") < 0.35
    assert sum(file.stat().st_size for file in SIGHT.iterdir()) < 6_000_000


@pytest.mark.slow
def test_pretraining_makes_a_folder_that_loads(tmp_path: Path) -> None:
    worlds = WorldPretraining(tower_steps=1, steps=1, rows=2, measured=1)
    settings = SightPretraining(tower_steps=1, steps=1, rows=2, measured=3, worlds=worlds)
    summary = pretrain_sight(settings, tmp_path / "made")
    assert set(summary["greedy"]) == {"answers", "at once", "worked"}
    assert len(summary["worlds"]) == 13
    assert CausalLM.from_pretrained(tmp_path / "made", key=Key.of(0)).tokenizer.picture_reader.token == "<image>"
    settings = SightPretraining(worked=0.0, right=1.0)
    assert lesson("count", [4, 4], Key.of(0).numpy(), settings) == "<answer>2</answer>"


def test_no_path_of_a_machine_is_shipped() -> None:
    assert not [file.name for file in SIGHT.glob("*config.json") if '"/' in file.read_text()]


def test_what_the_tower_reads_follows_from_the_pixels() -> None:
    """A patch that is black has no colour, a lit one has, and every value is one that the reader knows."""
    for place in range(len(WORLDS)):
        rng = Key.of(place).numpy()
        for _ in range(12):
            example = drawn(place, rng)
            lit = example.pixels.reshape(4, 4, 4, 4, 3).any((1, 3, 4)).flatten().tolist()
            if "colour" in example.reading:
                assert [value > 0 for value in example.reading["colour"]] == lit
            if "left" in example.reading:
                both = zip(example.reading["left"], example.reading["right"], strict=True)
                assert [left > 0 or right > 0 for left, right in both] == lit
            for name, values in example.reading.items():
                assert len(values) == 16
                assert all(value == -100 or 0 <= value < READ[name] for value in values)

"""Answers written over several steps: what is kept, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import TINY, call

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.methods.group_relative.kimi_k1_5 import EasyToHard, PartialRollouts, joined
from hocket.rollout.replay_store import told_of
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.train.tree import TreeEncoder, decode_tree
from hocket.types import Assignment, Decoding, Replay, Scenario, Trajectory, Turn

WAY = Decoding(max_tokens=6)


class Counting:
    """Writes 0, 1, 2, ... up to a length of each sample's own; `turns` splits what is said into several."""

    def __init__(self, lengths: list[int], turns: int = 1) -> None:
        self.lengths, self.turns, self.asked = lengths, turns, list[Assignment]()

    async def __call__(self, assignments: Any) -> list[Trajectory]:
        self.asked += assignments
        return [self._one(one, one.first + n) for one in assignments for n in range(one.samples)]

    def _one(self, asking: Assignment, sample: int) -> Trajectory:
        full, limit = self.lengths[sample], asking.budget or 0
        size, begun = min(full, limit), len(asking.prefix)
        tokens = np.array([*asking.prefix, *range(begun, size)])
        turn = Turn(
            "a", "policy", np.zeros(1, np.int64), tokens, np.full(size, -float(begun), np.float32),
            version=np.full(size, begun), forced=np.arange(size) < begun, finish="stop" if size == full else "length",
        )  # fmt: skip
        turns = [turn] * self.turns
        return Trajectory(asking.scenario, turns, sample=sample, truncated=size < full, terminated=size == full)


async def unscored(ended: Any) -> None:
    return None


def rolled(play: Any, steps: int, pieces: int = 3, asked: Assignment | None = None) -> list[list[Trajectory]]:
    """What each step brings back of one group of three, begun in the first; the state passes through a checkpoint."""
    rolling = PartialRollouts(samples=3, pieces=pieces)
    state, found = rolling.init(), list[list[Trajectory]]()
    for step in range(steps):
        one = asked or Assignment(Scenario(f"s{step}", ("a", "b"), metadata={"deep": ({"x": 1},)}), decoding=WAY)
        encoder = TreeEncoder()
        data = encoder.encode(state)
        state = decode_tree(data, encoder.tensors)
        experience, state = run_async(
            rolling.collect_with(state, [one], play=play, score=unscored, ledger=Ledger(), key=Key.of(0))
        )
        found.append(experience.trajectories)
    return found


@given(st.lists(st.integers(1, 9), min_size=3, max_size=3), st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_answers_are_those_written_at_once_and_come_back_in_the_step_of_the_last(lengths: list[int], pieces: int):
    steps, size = 7, -(-6 // pieces)
    found = rolled(Counting(lengths), steps, pieces)
    last = max(-(-min(length, 6) // size) for length in lengths)
    for step, group in enumerate(found):
        assert [one.scenario.id for one in group] == ([f"s{step - last + 1}"] * 3 if step >= last - 1 else [])
        for one, length in zip(group, lengths, strict=False):
            (turn,) = one.turns
            assert turn.action.tolist() == list(range(min(length, 6)))
            # Each piece has the log-prob and the version that the player gave it when it wrote it.
            written = [place // size * size for place in range(min(length, 6))]
            assert turn.version is not None
            assert turn.version.tolist() == written
            assert turn.logp is not None
            assert turn.logp.tolist() == [-float(place) for place in written]
            assert turn.forced is not None
            assert not turn.forced.any()
            assert one.truncated == (length > 6)
            assert one.scenario.prompt == ("a", "b")
            assert one.scenario.metadata == {"deep": ({"x": 1},)}


def test_what_cannot_go_on_is_refused():
    with pytest.raises(HocketError, match="an episode of 2 turns was cut, and PartialRollouts goes on with single"):
        rolled(Counting([5, 5, 5], turns=2), 1, pieces=6)
    plain = Assignment(Scenario("s"), decoding=WAY)
    for changes in ({"hint": "think"}, {"prefix": (1,)}, {"options": ("a",)}, {"replay": Replay()}):
        with pytest.raises(HocketError, match="a question with a hint, a prefix or options cannot be asked again"):
            rolled(Counting([5, 5, 5]), 1, asked=replace(plain, **changes))
    with pytest.raises(HocketError, match="scenario 's' cannot be asked again in a later step: a object cannot be"):
        rolled(Counting([5, 5, 5]), 1, asked=replace(plain, scenario=Scenario("s", metadata={"odd": object()})))
    with pytest.raises(ValueError, match="samples and pieces must be at least 1, not 3 and 0"):
        PartialRollouts(samples=3, pieces=0)


def test_an_answer_goes_on_as_it_began():
    def said(tokens: list[int], **told: Any) -> Trajectory:
        turn = Turn("a", "policy", np.zeros(1), np.array(tokens), np.zeros(len(tokens), np.float32))
        return Trajectory(Scenario("s"), [turn] if tokens else [], **told)

    begun = said([1, 2])
    with pytest.raises(HocketError, match="'s' does not go on as it began; its player imposes no prefix"):
        joined(begun, said([1, 3, 4]))
    assert joined(begun, said([])) is begun  # The context was full.
    failed = said([], failure="it broke")
    assert joined(begun, failed) is failed
    unknown = replace(begun, turns=[replace(begun.turns[0], logp=None)])
    assert joined(unknown, said([1, 2, 3])).turns[0].logp is None


def test_each_piece_is_a_third_of_the_length_and_the_last_takes_what_is_left():
    play, way = Counting([9, 9, 9]), replace(WAY, max_tokens=7)
    rolled(play, 3, asked=Assignment(Scenario("s"), decoding=way))
    limits = {(len(one.prefix), one.decoding.max_tokens) for one in play.asked}
    assert limits == {(0, 3), (3, 6), (6, 7)}


def test_a_scenario_comes_back_from_plain_data():
    one = Scenario("s", ({"role": "user", "content": "?"},), (1, "x"), {"plan": ("a", ["b"])}, 7, "o")
    assert Scenario(**told_of(one)) == one


def test_labels_are_numbers():
    with pytest.raises(ConfigurationError, match="scenario 's' tells difficulty = 'hard'; give a number, or name"):
        EasyToHard().difficulty(Scenario("s", metadata={"difficulty": "hard"}))


def test_a_task_without_labels_and_what_samples_ahead_are_refused(tmp_path: Path):
    said = call("train", "--recipe", "kimi-k1-5-long", "--task", "sums", "--runs", tmp_path, *TINY)
    assert said.code == 2
    assert "EasyToHard reads 'difficulty' of scenarios, and those of task sums have" in said.err
    said = call("train", "--recipe", "kimi-k1-5-long", "--overlap", "1", "--runs", tmp_path, *TINY)
    assert said.code == 2
    assert "PartialRollouts" in said.err

"""One role credited in its own way, all others in another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.packing import pack
from hocket.credit.group import GroupRelative
from hocket.credit.reinforce import ReturnToGo, RunningMean
from hocket.credit.turn_level import TurnRelative
from hocket.methods.teams.cpmobius.per_role import Apart
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=60, deadline=None, derandomize=True)
PLAYER = TurnRelative(by=GroupBy("scenario", "agent", "state"), baseline="mean", scale=None, gamma=0.0)
CREDIT = Apart(role="coach", own=ReturnToGo(), credit=PLAYER)


def batch(coach: list[float], player: list[list[float]]) -> Batch:
    """A problem per scenario: a turn of the coach of two decisions, and one of one decision per solution."""
    played = []
    for number, (paid, earned) in enumerate(zip(coach, player, strict=True)):
        turns = [Turn("coach", "coach", np.zeros(1, np.int64), np.array([1, 2]), role="coach")]
        state = f"problem {number}"
        for _ in earned:
            turns.append(Turn("player", "player", np.zeros(1, np.int64), np.array([3]), role="player", state=state))
        score = Score([paid, *earned], Level.TURN)
        played.append(Trajectory(Scenario(f"s{number}"), turns, scores={"own": score}))
    return WeightedSum()(pack(played), {})


ROWS = st.lists(
    st.tuples(st.floats(-3, 3), st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=5)), min_size=1, max_size=4
)


@LAW
@given(ROWS)
def test_each_by_its_own_credit(rows: list[tuple[float, list[float]]]) -> None:
    found = batch([paid for paid, _ in rows], [earned for _, earned in rows])
    advantages = CREDIT(found).advantage.tolist()
    wanted: list[float] = []
    for paid, earned in rows:
        wanted += [paid, paid, *(one - sum(earned) / len(earned) for one in earned)]
    assert advantages == pytest.approx(wanted)


def test_without_the_role_it_is_the_other_credit() -> None:
    found = batch([1.0, 0.0], [[1.0], [-1.0]])
    absent = replace(CREDIT, role="umpire", credit=GroupRelative(by=GroupBy()))
    assert torch.equal(absent(found).advantage, GroupRelative(by=GroupBy())(found).advantage)


def test_weight_0_enters_no_statistic_and_stays() -> None:
    found = batch([2.0], [[1.0, -1.0, 1.0]])
    weight = found.occurrences.weight.clone()
    weight[-1] = 0.0
    given_credit = CREDIT(found.credited(weight=weight))
    assert given_credit.advantage.tolist() == pytest.approx([2, 2, 1, -1, 0])
    assert given_credit.weight.tolist() == weight.tolist()


def test_what_remembers_is_refused() -> None:
    with pytest.raises(ValueError, match="memory"):
        Apart(own=RunningMean())  # type: ignore[arg-type]

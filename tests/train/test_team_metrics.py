"""Figures of episodes with several turns, agents and tools."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.batch import Level
from hocket.train.team_metrics import team_metrics
from hocket.types import Scenario, Score, Trajectory, Turn


def turn(role: str) -> Turn:
    return Turn(role, role, np.zeros(1, np.int64), np.zeros(2, np.int64), role=role)


def played(roles: str, scores: dict[str, Score], **info: object) -> Trajectory:
    return Trajectory(Scenario("s"), [turn(role) for role in roles], scores=scores, info=dict(info))


def test_single_answers_have_none() -> None:
    assert team_metrics([played("a", {"right": Score(1.0)})], {}) == {}


def test_turns_calls_and_what_each_role_earned() -> None:
    first = played("aba", {"own": Score([1.0, None, 0.5], Level.TURN)}, tool_calls=2)
    second = played("a", {"own": Score([-1.0], Level.TURN), "team": Score(9.0)})
    found = team_metrics([first, second], {"own": 2.0})
    assert found == pytest.approx(
        {"turns/mean": 2.0, "tools/calls": 2.0, "reward/agent/a": (3.0 - 2.0) / 2, "reward/agent/b": 0.0}
    )


def test_without_rewards_of_turns_nobody_earned_by_itself() -> None:
    assert team_metrics([played("ab", {"team": Score(1.0)})], {}) == {"turns/mean": 2.0}

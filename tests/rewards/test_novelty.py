"""The bonus for answers that were seldom given, and when it counts them."""

from __future__ import annotations

import asyncio
import math

import pytest
from rewards_cases import answered

from hocket.core.keys import Key
from hocket.rewards.novelty import Novelty
from hocket.types import Scenario, Trajectory


def said(text: str, scenario: str = "s") -> Trajectory:
    return Trajectory(Scenario(scenario), answered(text).turns)


def scores(reward: Novelty, state: dict, *trajectories: Trajectory) -> list[float | None]:
    return asyncio.run(reward.score_with(state, trajectories, key=Key.of(0)))


def test_the_bonus_falls_with_the_root_of_how_often_an_answer_was_given() -> None:
    reward, state, counts = Novelty(), Novelty().init(), dict[str, int]()
    rng = Key.of(1).numpy()
    for _ in range(6):
        answers = [str(rng.integers(5)) for _ in range(8)]
        step = [said(f"so <answer> {answer} </answer>") for answer in answers]
        wanted = [(counts.get(answer, 0) + 1) ** -0.5 for answer in answers]
        assert scores(reward, state, *step) == pytest.approx(wanted, rel=1e-15)
        state = reward.after(state, step)
        for answer in answers:
            counts[answer] = counts.get(answer, 0) + 1
    assert state == {"counts": counts}


def test_answers_may_be_counted_by_scenario() -> None:
    for apart, wanted in ((False, 1 / math.sqrt(2)), (True, 1.0)):
        reward = Novelty(apart=apart)
        state = reward.after(reward.init(), [said("7", "one")])
        assert scores(reward, state, said("7", "two")) == [wanted]
        assert scores(reward, state, said("7", "one")) == [1 / math.sqrt(2)]


def test_what_was_not_given_for_longest_is_forgotten_first() -> None:
    reward = Novelty(limit=2)
    state = reward.after(reward.init(), [said("1"), said("2")])
    state = reward.after(state, [said("1"), said("3")])
    assert state == {"counts": {"1": 2, "3": 1}}


def test_it_remembers_at_least_one_answer() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
        Novelty(limit=0)

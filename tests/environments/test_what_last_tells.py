"""What agents of PettingZoo's turn-by-turn environments earn is what `last()` tells, however `rewards` are kept."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, ClassVar

import numpy as np
import players
import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("gymnasium")

import gymnasium
import pettingzoo

from hocket.agents.environments import pettingzoo as adapter
from hocket.agents.environments.pettingzoo import PettingZoo
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.pytag.world import ZooTable
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.types import Assignment

spaces = gymnasium.spaces


class Counting(pettingzoo.AECEnv):  # type: ignore[misc, name-defined]
    """Three agents in turn, three rounds; who moves earns 1 + its move, and its follower loses a half.

    Args:
        kept: how rewards are kept: `both` as PettingZoo does, `quiet` where `rewards` stay 0, `stale` where they are
            never cleared, so that they pay again at every later move, `delayed` where only the end pays.
        pay: makes a reward of a number.
        ends: whether the game ends by a limit.
    """

    metadata: ClassVar = {"name": "counting"}

    def __init__(self, kept: str = "both", pay: Any = float, ends: bool = False) -> None:
        super().__init__()
        self.possible_agents = ["a", "b", "c"]
        self.kept, self.pay, self.cut = kept, pay, ends

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 10, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def observe(self, agent: str) -> Any:
        return np.array([self.time], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.time = list(self.possible_agents), 0
        self.rewards = {agent: self.pay(0.0) for agent in self.agents}
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agent_selection = "a"

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert action is not None
        follower = self.possible_agents[(self.possible_agents.index(agent) + 1) % 3]
        self.time += 1
        self._cumulative_rewards[agent] = 0.0
        given = {agent: 1.0 + float(action), follower: -0.5}
        for one, paid in given.items():
            self._cumulative_rewards[one] += paid
        if self.kept == "both":
            self.rewards = {one: self.pay(given.get(one, 0.0)) for one in self.agents}
        elif self.kept == "stale":
            self.rewards = {**self.rewards, **{one: self.pay(paid) for one, paid in given.items()}}
        if self.time == 9:
            (self.truncations if self.cut else self.terminations).update(dict.fromkeys(self.agents, True))
            if self.kept == "delayed":
                self.rewards = {one: self.pay(self._cumulative_rewards[one]) for one in self.agents}
        self.agent_selection = follower


def by_the_book(course: Any, move: Any) -> dict[str, float]:
    """The returns of a game played as PettingZoo's documentation plays it."""
    course.reset(seed=0)
    earned = dict.fromkeys(course.possible_agents, 0.0)
    for agent in course.agent_iter():
        _, reward, terminated, truncated, _ = course.last()
        earned[agent] += float(reward)
        course.step(None if terminated or truncated else move(course.time))
    return earned


@pytest.fixture(autouse=True)
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_WARNED", set())


KEPT = ["both", "quiet", "stale", "delayed"]
PAY = [float, np.float32, lambda value: np.array([value])]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("pay", PAY)
@pytest.mark.parametrize("ends", [False, True])
def test_in_words(kept: str, pay: Any, ends: bool) -> None:
    due = by_the_book(Counting(kept), lambda time: time % 2)
    assert sum(due.values()) == 9 * 0.5 + 4
    environment = players.started(PettingZoo(lambda: Counting(kept, pay, ends)), 0)
    earned, told = dict.fromkeys("abc", 0.0), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for time in range(9):
            if time == 4:
                environment = environment.clone()  # A copy knows what was paid.
            for agent, paid in environment.act({environment.acting[0]: str(time % 2)}).items():
                earned[agent] += paid
        told = [str(one.message) for one in caught]
    assert (environment.over, environment.truncated) == (True, ends)
    assert earned == pytest.approx(due)
    assert len(told) == (kept != "both")
    assert all("agents are paid what `last()` tells" in one and "pettingzoo:" in one for one in told)


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.filterwarnings("ignore:task pettingzoo")
def test_for_control(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ZooTable, "new", lambda self: Counting(kept, lambda value: np.array([value])))
    task = JointTask(ZooTable("nowhere.counting_v0"))
    policy = ControlPolicy(task.spaces(task.world.agents), key=Key.of(0))
    player = JointPlayer(task.world, {"policy": policy}, dict.fromkeys("abc", "policy"), width=2)
    for one in asyncio.run(player.play([Assignment(task.scenario("train", n)) for n in range(4)], key=Key.of(0))):
        acts = {turn.agent: turn.action.tolist() for turn in one.turns}
        due = by_the_book(Counting(kept), lambda time, acts=acts: acts["abc"[time % 3]][time // 3])
        due = {agent: earned + 0.5 * (agent != "a") for agent, earned in due.items()}  # Lost before a first move.
        assert one.failure is None
        paid = one.scores["reward"].value
        assert {agent: float(paid[3 * place : 3 * place + 3].sum()) for place, agent in enumerate("abc")} == (
            pytest.approx(due)
        )


def test_rewards_that_are_right_are_paid_at_once() -> None:
    environment = players.started(PettingZoo(Counting), 0)
    assert environment.act({"a": "1"}) == {"a": 2.0, "b": -0.5, "c": 0.0}


def test_several_numbers_are_refused() -> None:
    environment = players.started(PettingZoo(lambda: Counting(pay=lambda value: np.array([value, value]))), 0)
    with pytest.raises(ConfigurationError, match="pettingzoo:<lambda> pays an array of 2 numbers as a reward"):
        environment.act({"a": "1"})

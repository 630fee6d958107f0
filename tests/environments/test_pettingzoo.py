"""PettingZoo environments of both kinds: small ones of our own, and the classic ones where they can be imported."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import players
import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("gymnasium")

import gymnasium
import pettingzoo

from hocket.agents.environments.pettingzoo import PettingZoo
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.testing import rehearse
from hocket.types import Scenario

spaces = gymnasium.spaces


class Nim(pettingzoo.AECEnv):  # type: ignore[misc, name-defined]
    """Take one to three of seven to nine sticks; who takes the last wins."""

    metadata: ClassVar = {"name": "nim"}

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["first", "second"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Dict({"observation": spaces.Discrete(10), "action_mask": spaces.MultiBinary(3)})

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.left = 7 + int(np.random.Generator(np.random.Philox(seed)).integers(3))
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = "first"

    def observe(self, agent: str) -> dict[str, Any]:
        return {"observation": self.left, "action_mask": np.array([self.left >= n for n in (1, 2, 3)], np.int8)}

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        assert action is not None
        other = "second" if agent == "first" else "first"
        self.left -= action + 1
        self._clear_rewards()
        if self.left == 0:
            self.rewards = {agent: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self.agent_selection = other


class Match(pettingzoo.ParallelEnv):  # type: ignore[misc, name-defined]
    """Matching pennies, three rounds, then cut; the second agent leaves for good after it has lost two."""

    metadata: ClassVar = {"name": "match"}

    def __init__(self, rounds: int = 3) -> None:
        self.possible_agents = ["even", "odd"]
        self.rounds = rounds

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, int], dict[str, dict[str, Any]]]:
        self.agents = list(self.possible_agents)
        self.round, self.lost = 0, 0
        return dict.fromkeys(self.agents, 2), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self.round += 1
        agents = list(self.agents)
        if len(agents) == 2:
            same = actions["even"] == actions["odd"]
            self.lost += same
            rewards = {"even": 1.0 if same else -1.0, "odd": -1.0 if same else 1.0}
        else:
            rewards = {"even": 0.0}
        out = self.lost == 2
        cut = self.round == self.rounds
        terminations = {agent: agent == "odd" and out for agent in agents}
        self.agents = [] if cut else [agent for agent in agents if not terminations[agent]]
        seen = {agent: actions[agent] for agent in agents}
        return seen, rewards, terminations, dict.fromkeys(agents, cut), {agent: {} for agent in agents}

    def close(self) -> None: ...


def test_turn_by_turn_with_masks_and_rewards_for_all() -> None:
    world = PettingZoo(Nim, actions=("one", "two", "three"), rules="Take the last stick.", zero_sum=True)
    assert world.agents == ("first", "second")
    environment = players.started(world, 0)
    assert environment.acting == ("first",)
    left = environment._course.left  # type: ignore[attr-defined]
    assert environment.observe("first").told() == (
        f"Take the last stick.\nYou are first.\n{left}\nLegal moves: one, two, three"
    )
    assert environment.observe("second").actions == ()
    log, returns = players.episode(environment, players.legal(Key.of(0)))
    assert environment.over
    assert sorted(returns.values()) == [-1.0, 1.0]
    last = log[-1][2]  # type: ignore[index]
    assert sorted(last.values()) == [-1.0, 1.0]


@pytest.mark.parametrize("maker", [Nim, Match])
def test_equal_keys_give_equal_episodes_and_copies_are_independent(maker: Any) -> None:
    world = PettingZoo(maker, zero_sum=True)
    for seed in range(10):
        log, returns = players.episode(players.started(world, seed), players.legal(Key.of(seed)))
        other = players.started(world, seed)
        assert players.episode(other, players.legal(Key.of(seed)))[0] == log
        assert sum(returns.values()) == pytest.approx(0.0)
        third = players.started(world, seed)
        players.episode(third, players.legal(Key.of(seed)), 1)
        copy, before = third.clone(), [third.observe(agent) for agent in third.agents]
        gone, _ = players.episode(copy, players.legal(Key.of(5)))
        assert [third.observe(agent) for agent in third.agents] == before
        assert players.episode(third, players.legal(Key.of(5)))[0] == gone


def test_masked_moves_are_illegal() -> None:
    world = PettingZoo(Nim, zero_sum=True)
    environment = players.started(world, 0)
    while environment._course.left > 1:  # type: ignore[attr-defined]
        environment.act({environment.acting[0]: "0"})
    (agent,) = environment.acting
    other = next(one for one in world.agents if one != agent)
    assert environment.observe(agent).actions == ("0",)
    assert environment.act({agent: "1"}) == {agent: -1.0, other: 1.0}


def test_in_parallel_agents_may_leave_and_limits_truncate() -> None:
    environment = players.started(PettingZoo(Match), 0)
    assert environment.acting == ("even", "odd")
    assert environment.act({"even": "1", "odd": "1"}) == {"even": 1.0, "odd": -1.0}
    environment.act({"even": "0", "odd": "0"})
    assert environment.acting == ("even",)
    with pytest.raises(HocketError, match="waits for the moves of even, not of even, odd"):
        environment.act({"even": "0", "odd": "0"})
    environment.act({"even": "0"})
    assert (environment.over, environment.truncated) == (True, True)


def test_the_text_player_plays_both_kinds() -> None:
    for world in (PettingZoo(Nim), PettingZoo(Match)):
        (found,) = rehearse(PlayEnvironment(world), Scenario("s", seed=2), players.reply)
        assert found.failure is None
        assert sum(found.info["returns"].values()) == pytest.approx(0.0)


def test_modules_are_found_or_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match="has no module"):
        PettingZoo("classic.nothing_v1")
    with pytest.raises(ConfigurationError, match="no env or parallel_env"):
        PettingZoo("pettingzoo.utils")


@pytest.mark.parametrize("module", ["tictactoe_v3", "rps_v2", "connect_four_v3"])
@pytest.mark.global_rng
def test_classic_games(module: str) -> None:
    pytest.importorskip(f"pettingzoo.classic.{module}", exc_type=ImportError)
    world = PettingZoo(f"classic.{module}", zero_sum=True)
    log, returns = players.episode(players.started(world, 1), players.legal(Key.of(1)))
    assert players.episode(players.started(world, 1), players.legal(Key.of(1)))[0] == log
    assert sum(returns.values()) == pytest.approx(0.0)

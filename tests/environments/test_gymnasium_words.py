"""Gymnasium environments in words: toy texts, spaces, masks, free text, copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import players
import pytest

pytest.importorskip("gymnasium")

import gymnasium

from hocket.agents.environments.gymnasium import GymnasiumWorld, Words
from hocket.agents.environments.spaces import actions_of, allowed, shown
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.testing import rehearse
from hocket.types import Scenario

spaces = gymnasium.spaces


class Guess(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Guess a number in words; free text. A limit of three guesses truncates."""

    observation_space = spaces.Text(40)
    action_space = spaces.Text(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.secret, self.left = int(self.np_random.integers(10)), 3
        return "guess", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        right = action == str(self.secret)
        return "right" if right else "wrong", float(right), right, self.left == 0, {}


class Masked(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Only one action is allowed at a time, by the info's mask; three steps."""

    observation_space = spaces.Dict({"place": spaces.Discrete(3), "heat": spaces.Box(0, 1, (2,))})
    action_space = spaces.Discrete(3, start=5)

    def _seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        mask = np.eye(3, dtype=np.int8)[self.place % 3]
        return {"place": self.place, "heat": np.array([0.5, 0.25])}, {"action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self._seen()

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert action == 5 + self.place
        self.place += 1
        seen, info = self._seen()
        return seen, 0.5, self.place == 3, False, info


def test_frozen_lake_in_words() -> None:
    environment = players.started(GymnasiumWorld("FrozenLake-v1", {"is_slippery": False}), 0)
    seen = environment.observe("agent")
    assert seen.told().endswith("*FFF\nFHFH\nFFFH\nHFFG\nLegal moves: left, down, right, up")
    for move in ("down", "down", "right", "right", "down"):
        assert environment.act({"agent": move}) == {"agent": 0.0}
    assert environment.observe("agent").told(remembering=True).startswith("SFFF\nFHFH\nFFFH\nHF*G")
    assert environment.act({"agent": "Right"}) == {"agent": 1.0}
    assert (environment.over, environment.truncated) == (True, False)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "Taxi-v4", "Taxi-v3", "CliffWalking-v1"])
def test_equal_keys_give_equal_episodes_and_copies_are_independent(name: str) -> None:
    if name not in gymnasium.registry:
        pytest.skip(f"this Gymnasium has no {name}")
    world = GymnasiumWorld(name)
    for seed in range(3):
        first, _ = players.episode(players.started(world, seed), players.legal(Key.of(seed)), 60)
        environment = players.started(world, seed)
        assert first == players.episode(environment, players.legal(Key.of(seed)), 60)[0]
        other = players.started(world, seed)
        players.episode(other, players.legal(Key.of(seed)), 1)
        copy, before = other.clone(), other.observe("agent")
        gone, _ = players.episode(copy, players.legal(Key.of(9)), 30)
        assert other.observe("agent") == before
        assert players.episode(other, players.legal(Key.of(9)), 30)[0] == gone


def test_blackjack_is_told_in_words() -> None:
    seen = players.started(GymnasiumWorld("Blackjack-v1"), 1).observe("agent")
    assert "Your sum:" in seen.text
    assert seen.actions == ("stick", "hit")


def test_free_text_is_a_move_and_a_limit_of_the_environment_truncates() -> None:
    world = GymnasiumWorld(Guess, words=Words("Guess a digit."))
    assert world.agents == ("agent",)
    environment = players.started(world, 0)
    assert environment.observe("agent").actions is None
    assert environment.observe("agent").text == "Guess a digit.\nguess"
    copy = environment.clone()
    secret = str(environment._course.course.secret)  # type: ignore[attr-defined]
    assert environment.act({"agent": secret}) == {"agent": 1.0}
    assert not environment.truncated
    for _ in range(3):
        copy.act({"agent": "x"})
    assert (copy.over, copy.truncated) == (True, True)
    (found,) = rehearse(PlayEnvironment(world), Scenario("s"), ["<think>?</think>x"] * 3)
    assert (found.truncated, found.info["limit"]) == (True, "the environment cut the episode short")


def test_masks_leave_only_what_is_legal() -> None:
    environment = players.started(GymnasiumWorld(Masked, words=Words(actions=("a", "b", "c"))), 0)
    assert environment.observe("agent").told() == "place: 0\nheat: 0.5 0.25\nLegal moves: a"
    environment.act({"agent": "a"})
    assert environment.observe("agent").actions == ("b",)
    assert environment.act({"agent": "a"}) == {"agent": -1.0}
    assert environment.over


def test_observations_in_words() -> None:
    assert shown({"a": np.int64(3), "b": (1, True)}) == "a: 3\nb: 1, yes"
    assert shown(np.array([[1, 2], [3, 4]])) == "1 2\n3 4"
    assert shown(np.array([0.123456, 2.0])) == "0.1235 2"
    assert shown(0.33333333) == "0.3333"
    assert shown("as it is") == "as it is"


def test_actions_in_words() -> None:
    assert actions_of("x", spaces.Discrete(2, start=-1)) == {"-1": -1, "0": 0}
    pairs = actions_of("x", spaces.MultiDiscrete([2, 3]))
    assert pairs is not None
    assert list(pairs) == ["0 0", "0 1", "0 2", "1 0", "1 1", "1 2"]
    assert pairs["1 2"].tolist() == [1, 2]
    assert len(actions_of("x", spaces.MultiBinary(3)) or ()) == 8
    assert actions_of("x", spaces.Text(4)) is None
    with pytest.raises(ConfigurationError, match="cannot be listed in words"):
        actions_of("x", spaces.Box(-1, 1, (2,)))
    with pytest.raises(ConfigurationError, match="cannot be listed in words"):
        actions_of("x", spaces.MultiDiscrete([100, 100]))
    with pytest.raises(ConfigurationError, match="has 2 actions, and 1 names"):
        actions_of("x", spaces.Discrete(2), ["one"])
    assert allowed({"a": 0, "b": 1}, [0, 1]) == {"b": 1}
    assert allowed({"a": 0, "b": 1}, [0, 0]) == {"a": 0, "b": 1}


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("FrozenLak-v1", {}, "no environment 'FrozenLak-v1'; did you mean 'FrozenLake-v1'"),
        ("FrozenLake-v1", {"ice": 3}, "unexpected keyword argument 'ice'"),
        ("Pendulum-v1", {}, "cannot be listed in words"),
    ],
)
def test_what_cannot_be_played_is_refused(name: str, settings: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        GymnasiumWorld(name, settings)

"""The bandit over levels against a second computation, and what it asks."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tiny_runs import TINY, call

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.curriculum.level_bandit import LevelBandit, level_of
from hocket.train.ledger import Ledger
from hocket.types import Scenario, Score, Trajectory

LEVELS = ("easy", "hard", "middle")


class Levelled:
    """Scenarios of three levels, a third each; `skewed` makes one of them rare."""

    name = "levelled"

    def __init__(self, size: int = 30, rare: int | None = None) -> None:
        self._size, self._rare = size, rare

    def size(self, split: str) -> int:
        return self._size

    def scenario(self, split: str, number: int) -> Scenario:
        level = LEVELS[number % 3] if self._rare is None else LEVELS[int(number < self._rare)]
        return Scenario(str(number), metadata={"level": level})


def asked(bandit: LevelBandit, state: Any, at: int, count: int, task: Any = None) -> tuple[list[Scenario], Any]:
    return bandit.ask_with(state, task or Levelled(), at, count, Ledger(), Key.of(7))


def earned(scenario: Scenario, *rewards: float | None) -> list[Trajectory]:
    return [Trajectory(scenario, [], scores={"reward": Score(one)}) for one in rewards]


def test_weights_are_those_of_exp3s_computed_apart() -> None:
    bandit, rate, even = LevelBandit(rate=0.3, even=0.1, gains=5, prompts=1), 0.3, 0.1
    rng, state = Key.of(3).numpy(), bandit.init()
    weights, known, gains = [0.0, 0.0, 0.0], dict[str, float](), list[float]()
    for step in range(1, 40):
        several = 1 if step < 20 else 3
        found, state = asked(bandit, state, step, several)
        rewards = rng.random((several, 4))
        samples = [one for scenario, row in zip(found, rewards, strict=True) for one in earned(scenario, *row)]
        names = [level_of(scenario, "level") for scenario in found]
        total = sum(math.exp(weight) for weight in weights)
        chances = [(1 - even) * math.exp(weight) / total + even / 3 for weight in weights]
        assert bandit.chances(state) == pytest.approx(chances, rel=1e-12)
        means = {name: float(np.mean(rewards[[one == name for one in names]])) for name in set(names)}
        fresh = {name: abs(means[name] - known[name]) for name in LEVELS if name in means and name in known}
        gains = (gains + list(fresh.values()))[-5:]
        raised = []
        for place, name in enumerate(LEVELS):
            pay = 0.0
            if name in fresh:
                low, high = np.percentile(gains, 20), np.percentile(gains, 80)
                unit = 0.0 if low == high else max(-1.0, min(1.0, 2 * (fresh[name] - low) / (high - low) - 1))
                pay = unit * names.count(name) / several
            raised.append(math.exp(weights[place] + rate * pay / chances[place]))
        share = 1 / (step + 1)
        weights = [math.log((1 - share) * one + share / 2 * (sum(raised) - one)) for one in raised]
        known |= means
        state = bandit.after(state, samples, {})
        assert list(state["weights"].values()) == pytest.approx(weights, rel=1e-10, abs=1e-12)
        assert state["means"] == pytest.approx(known)
    assert max(weights) - min(weights) > 0.1


def test_levels_are_drawn_by_their_chances_and_in_passes() -> None:
    bandit, task = LevelBandit(prompts=1, even=0.1), Levelled(30)
    _, state = asked(bandit, bandit.init(), 0, 1)
    state = {**state, "weights": dict(zip(LEVELS, (0.0, 2.0, -1.0), strict=True)), "asked": dict.fromkeys(LEVELS, 0)}
    drawn = Counter[str]()
    passes: dict[str, list[str]] = {name: [] for name in LEVELS}
    for at in range(3000):
        [scenario], state = asked(bandit, state, at, 1, task)
        drawn[level_of(scenario, "level")] += 1
        passes[level_of(scenario, "level")].append(scenario.id)
    for name, chance in zip(LEVELS, bandit.chances(state).tolist(), strict=True):
        assert drawn[name] / 3000 == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / 3000))
        assert all(len(set(passes[name][at : at + 10])) == 10 for at in range(0, drawn[name] - 10, 10))


def test_nothing_is_asked_twice_in_a_call_as_long_as_there_is_anything_else() -> None:
    bandit, task = LevelBandit(even=0.0), Levelled(12, rare=2)
    _, state = asked(bandit, bandit.init(), 0, 1, task)
    state = {**state, "weights": {"easy": -800.0, "hard": 800.0}}
    for at in range(0, 60, 12):
        found, state = asked(bandit, state, at, 12, task)
        assert len({one.id for one in found}) == 12
    found, _ = asked(bandit, state, 60, 14, task)
    assert len(found) == 14


class Chain(Levelled):
    """Five levels, each of which can be learnt once the one before is half known."""

    def scenario(self, split: str, number: int) -> Scenario:
        return Scenario(str(number), metadata={"level": number % 5})


def learnt(bandit: LevelBandit, seed: int) -> int:
    """The step in which the last level of the chain is known."""
    state, skill, rng, step = bandit.init(), [0.9, 0.0, 0.0, 0.0, 0.0], Key.of(seed).derive("luck").numpy(), 0
    while skill[-1] < 0.9:
        found, state = bandit.ask_with(state, Chain(100), 8 * step, 8, Ledger(), Key.of(seed))
        samples, known = list[Trajectory](), list(skill)
        for one in found:
            level = int(level_of(one, "level"))
            samples += earned(one, *(rng.random(4) < known[level]).astype(float).tolist())
            skill[level] += 0.01 * (level == 0 or known[level - 1] > 0.5)
        state, step = bandit.after(state, samples, {}), step + 1
    return step


def test_what_can_be_learnt_is_asked_most() -> None:
    taken = [learnt(LevelBandit(), seed) for seed in range(3)]
    evenly = [learnt(LevelBandit(even=1.0), seed) for seed in range(3)]
    assert max(taken) < 0.85 * min(evenly), (taken, evenly)


def test_a_step_without_rewards_teaches_nothing() -> None:
    bandit = LevelBandit()
    found, state = asked(bandit, bandit.init(), 0, 2)
    assert bandit.after(state, earned(found[0], None), {}) == state
    assert bandit.after(state, earned(Scenario("of its own making"), 1.0), {}) == state


def test_the_length_of_a_list_is_its_level() -> None:
    assert level_of(Scenario("s", metadata={"steps": ("a", "b")}), "steps") == "2"


def test_one_level_is_no_choice() -> None:
    with pytest.raises(ConfigurationError, match="all 4 scenarios of the pool are of level easy; name metadata"):
        asked(LevelBandit(), LevelBandit().init(), 0, 1, Levelled(4, rare=0))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pool": 0}, "prompts, pool and gains must be at least 1"),
        ({"even": 2.0}, "even must lie"),
        ({"rate": -1.0}, "rate"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LevelBandit(**settings)


def test_a_task_without_levels_is_refused() -> None:
    said = call("train", *TINY, "--curriculum", "LevelBandit", "--steps", "1")
    assert said.code == 2
    assert "level" in said.err
    assert tasks.find("sums").name == "sums"

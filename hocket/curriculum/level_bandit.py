"""A bandit over the levels of a task, rewarded by learning progress."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core import sums
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import total_reward
from hocket.curriculum.pool import PoolMembers, at_least_one
from hocket.curriculum.random_order import permutation
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.stages import LedgerView, State, Task
from hocket.types import Scenario, Trajectory

PERCENTILES = 20, 80
"""The percentiles that are scaled to -1 and 1; gains beyond them are clipped."""


@dataclass(frozen=True)
class LevelBandit(RememberingCurriculum):
    """Selects levels of difficulty by Exp3.S with learning progress as reward (Graves et al. 2017, arXiv 1704.03003).

    Section 2.3 of the paper. The level of every scenario is drawn with probabilities

        p_i = (1 - even) exp(w_i) / sum_j exp(w_j) + even / N

    and the scenarios of a level come in passes, in random order. After step t (the first is 1)

        w_i <- log((1 - a) exp(v_i) + a / (N - 1) sum_{j != i} exp(v_j)),   a = 1 / (t + 1)
        v_i = w_i + rate s_i r_i / p_i

    where s_i is the share of the step's samples of level i (an indicator in the paper, where a step has one level), and
    r_i in [-1, 1] its gain, scaled by percentiles of the last gains of all levels (the paper samples a reservoir). The
    gain is the absolute change of the level's mean reward since its last step (Matiisen et al. 2017, arXiv 1707.00183),
    in place of the decrease of a loss; a level's first step has no gain. The paper's beta is 0, as there.

    Attributes:
        level: the metadata key of a scenario's level; of a list, the length is the level.
        prompts: scenarios per step. pool: the size of the pool, as in `hocket.curriculum.Weighted`.
        rate: the learning rate. The paper's 0.001 is for some hundred thousand steps; the default is for hundreds. Of
            five levels, each learnable once the one before is half known, the last was learnt in 203 to 327 steps with
            1, in 231 to 353 with 0.5, and in 493 to 523 with uniform levels (4 seeds, 8 scenarios of 4 samples a step).
        even: the share of scenarios with a uniformly drawn level, in [0, 1]. gains: how many gains are kept.

    Raises:
        ConfigurationError: on a call, when all scenarios of the pool have the same level.
    """

    level: str = "level"
    prompts: int = 16
    pool: int | None = None
    rate: float = 1.0
    even: float = 0.05
    gains: int = 256

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, pool=self.pool, gains=self.gains)
        if not 0 <= self.even <= 1 or not 0 <= self.rate < math.inf:
            raise ValueError(f"even must lie in [0, 1] and rate be at least 0, not {self.even} and {self.rate}")

    @property
    def reads_metadata(self) -> frozenset[str]:
        return frozenset({self.level})

    def init(self) -> State:
        return {"places": {}, "weights": {}, "asked": {}, "means": {}, "gains": [], "steps": 0}

    def ask_with(
        self, state: State, task: Task, asked: int, count: int, ledger: LedgerView, key: Key
    ) -> tuple[list[Scenario], State]:
        members = PoolMembers(task, self.pool, ledger, key)
        state = state if state["places"] else self._begun(state, members)
        places, turns, chosen = state["places"], dict(state["asked"]), list[int]()
        for position in range(asked, asked + count):
            # A scenario is repeated within a call only when all others are used up.
            taken = set(chosen) if len(chosen) < members.size else set()
            open_ = np.array([not taken.issuperset(place) for place in places.values()])
            chances = np.where(open_, self.chances(state), 0)
            if not chances.any():
                chances = open_.astype(np.float64)
            drawn = key.derive("level", position).numpy().choice(len(places), p=chances / chances.sum())
            level = list(places)[int(drawn)]
            place = None
            while place is None or place in taken:
                place = self._next(places[level], level, turns[level], key)
                turns[level] += 1
            chosen.append(place)
        return [members[place] for place in chosen], {**state, "asked": turns}

    def after(self, state: State, trajectories: Sequence[Trajectory], weights: Mapping[str, float]) -> State:
        earned: dict[str, list[float]] = {level: [] for level in state["places"]}
        for trajectory in trajectories:
            level, reward = level_of(trajectory.scenario, self.level), total_reward(trajectory, weights)
            if level in earned and math.isfinite(reward):  # A rollout may add scenarios of its own.
                earned[level].append(reward)
        means = {level: sums.mean(rewards) for level, rewards in earned.items() if rewards}
        if not means:
            return state
        known = state["means"]
        gained = {level: abs(mean - known[level]) for level, mean in means.items() if level in known}
        gains = [*state["gains"], *gained.values()][-self.gains :]
        samples = sum(map(len, earned.values()))
        pay = np.array(
            [
                scaled(gained[level], gains) * len(earned[level]) / samples if level in gained else 0.0
                for level in earned
            ]
        )
        raised = np.array(list(state["weights"].values())) + self.rate * pay / self.chances(state)
        steps = int(state["steps"]) + 1
        moved = dict(zip(earned, shared(raised, 1 / (steps + 1)).tolist(), strict=True))
        return {**state, "weights": moved, "means": {**known, **means}, "gains": gains, "steps": steps}

    def chances(self, state: State) -> NDArray[np.float64]:
        """The probability of each level, in the order of `places`."""
        weights = np.array(list(state["weights"].values()), np.float64)
        likely = np.exp(weights - weights.max())
        chances: NDArray[np.float64] = (1 - self.even) * likely / likely.sum() + self.even / len(likely)
        return chances

    def _begun(self, state: State, members: PoolMembers) -> State:
        """The state with the levels of the pool."""
        levels: dict[str, list[int]] = {}
        for place in range(members.size):
            levels.setdefault(level_of(members[place], self.level), []).append(place)
        if len(levels) < 2:
            raise ConfigurationError(
                f"curriculum.level = {self.level!r}: all {members.size} scenarios of the pool are of level "
                f"{next(iter(levels))}; name metadata in which they differ, or raise curriculum.pool"
            )
        places = dict(sorted(levels.items()))
        return {**state, "places": places, "weights": dict.fromkeys(places, 0.0), "asked": dict.fromkeys(places, 0)}

    @staticmethod
    def _next(places: Sequence[int], level: str, turn: int, key: Key) -> int:
        """The place of draw number `turn` of a level."""
        epoch, number = divmod(turn, len(places))
        return places[int(permutation(key.derive("level", level, epoch), len(places))[number])]


def level_of(scenario: Scenario, name: str) -> str:
    """The level of a scenario by the metadata `name`."""
    value = scenario.metadata.get(name)
    return str(len(value) if isinstance(value, (list, tuple)) else value)


def scaled(gain: float, gains: Sequence[float]) -> float:
    """A gain, scaled to [-1, 1] by percentiles of `gains`; 0 if these are equal."""
    low, high = np.percentile(gains, PERCENTILES).tolist()
    return 0.0 if low == high else min(1.0, max(-1.0, 2 * (gain - low) / (high - low) - 1))


def shared(weights: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Weights after each gives a `share` of its exponential to all others, so that none vanishes."""
    high = weights.max()
    likely = np.exp(weights - high)
    mixture: NDArray[np.float64] = high + np.log(
        (1 - share) * likely + share / (len(likely) - 1) * (likely.sum() - likely)
    )
    return mixture

"""Allocation of a total number of samples to scenarios: each next sample goes where it is worth most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Stage
from hocket.types import Assignment, Experience


class Worth(Stage):
    """The worth of samples of a scenario, computed from its history in the ledger, with diminishing returns."""

    room = "rollout"

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The worth of each number of samples in `counts` `[K]`, which increase by one; it is concave.

        `rewards` are the mean rewards of the scenario's past groups, oldest first.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class EvenWorth(Worth):
    """The same worth for every scenario, with diminishing returns, so that all get equally many samples."""

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return -1.0 / counts


@dataclass(frozen=True)
class Narrowed(Worth):
    """The expected reduction of the variance of the success rate's posterior.

    With n further samples `Beta(a, b)` has the expected variance `v (a + b) / (a + b + n)`, v the current variance.
    """

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        weight = 2 + outcomes.samples
        narrowed: NDArray[np.float64] = outcomes.variance * counts / (weight + counts)
        return narrowed


def allocate(worth: NDArray[np.float64], low: int, total: int) -> NDArray[np.int64]:
    """The number of samples of each of Q scenarios, `[Q]`: at least `low`, in sum exactly `total`, of greatest worth.

    For concave worth the greedy allocation is optimal. In a tie the scenario with fewer samples comes first, then the
    earlier one.

    Args:
        worth: of `low`, `low + 1`, .. samples of each scenario, `[Q, K]`; a scenario gets at most `low + K - 1`.

    Raises:
        ValueError: when the total is below Q x low or above Q x (low + K - 1).
    """
    number, width = worth.shape
    spare = total - number * low
    if not 0 <= spare <= number * (width - 1):
        raise ValueError(f"a total of {total} does not lie in {number * low}..{number * (low + width - 1)}")
    # Rounding errors must not make the gain of a later sample exceed that of an earlier one.
    gains = np.minimum.accumulate(np.diff(worth, axis=1), axis=1)
    counts = np.full(number, low, np.int64)
    if spare == 0:
        return counts
    least = np.partition(gains, -spare, axis=None)[-spare]
    counts += (gains > least).sum(1)
    ties = np.argwhere(least == gains.T)[: total - int(counts.sum()), 1]
    return counts + np.bincount(ties, minlength=number)


@dataclass(frozen=True)
class Allocated(Rollout):
    """`total` samples per step, allocated to its scenarios by their worth.

    The worth depends on the ledger. If scenarios are collected one by one (`--lag`), each gets `samples`.

    Attributes:
        value: the worth of samples of a scenario.
        samples: the average per scenario, if `total` is None. total: the exact number for all scenarios of a step.
        low, high: the least and the greatest number for one scenario.
        metrics: `rollout/fewest` and `rollout/most` samples of a scenario.

    Raises:
        ConfigurationError: for a total that the bounds do not allow.
    """

    value: Worth = EvenWorth()
    samples: int = 8
    total: int | None = None
    low: int = 2
    high: int = 128

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"low and high must satisfy 1 <= low <= high, not {self.low} and {self.high}")

    def unfit(self, prompts: int) -> str | None:
        total = self._total(prompts)
        if not prompts * self.low <= total <= prompts * self.high:
            name, number = ("samples", self.samples) if self.total is None else ("total", self.total)
            return (
                f"rollout.{name} = {number} gives {total} samples to {prompts} scenarios, of which each gets "
                f"{self.low} to {self.high}; it must be {prompts * self.low} to {prompts * self.high} in all "
                "(rollout.low, rollout.high)"
            )
        return None

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The samples of each scenario, in the order of `asked`."""
        counts = self.counts([asking.scenario.id for asking in asked], ledger)
        trajectories = await play([replace(assignment, samples=n) for assignment, n in zip(asked, counts, strict=True)])
        await score(trajectories)
        metrics = {"rollout/fewest": float(min(counts)), "rollout/most": float(max(counts))}
        return Experience(trajectories, metrics=metrics)

    def counts(self, scenarios: Sequence[str], ledger: LedgerView) -> list[int]:
        """How many samples each scenario gets."""
        if (reason := self.unfit(len(scenarios))) is not None and len(scenarios) > 1:
            raise ConfigurationError(reason)
        if len(scenarios) == 1:
            return [self.samples]
        total = self._total(len(scenarios))
        # The other scenarios' minimum limits what one scenario can get.
        most = min(self.high, total - (len(scenarios) - 1) * self.low)
        steps = np.arange(self.low, most + 1)
        worth = np.stack(
            [self.value(ledger.outcomes(scenario), ledger.history(scenario), steps) for scenario in scenarios]
        )
        return [int(count) for count in allocate(worth, self.low, total)]

    def _total(self, scenarios: int) -> int:
        return self.samples * scenarios if self.total is None else self.total

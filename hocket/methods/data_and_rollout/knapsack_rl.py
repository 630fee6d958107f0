"""Knapsack RL: samples go where they most likely make a useful gradient (Li et al., arXiv:2509.25849).

A scenario with success rate p has a gradient only where N samples bring both outcomes, with probability
`1 - p^N - (1-p)^N`; what it is worth is taken to be `p (1-p)^2`. `GradientWorth` is their product, and `Allocated`
shares out a fixed total to maximise its sum. The rates are the ledger's, so scenarios have to come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.posterior import Outcomes
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.base.grpo import GRPO
from hocket.rollout.allocation import Allocated, Worth


@dataclass(frozen=True)
class GradientWorth(Worth):
    """`V(N, p) = (1 - p^N - (1-p)^N) p (1-p)^2`: Knapsack RL (arXiv 2509.25849).

    Concave from N = 1 on. A rate of 0 or 1 makes every number worthless. What was always solved so keeps the fewest
    samples. What was never solved falls back on `unsolved` samples, served first: the paper gives unsolved tasks what
    others can spare; how much could not be confirmed.

    Attributes:
        window: p is the mean of the last so many groups' rewards, cut to [0, 1]: older ones are another policy's.
        unseen: p before the first group. unsolved: samples of a scenario whose p is 0.
    """

    window: int = 2
    unseen: float = 0.5
    unsolved: int = 8

    def __post_init__(self) -> None:
        if self.window < 1 or not 0 <= self.unseen <= 1:
            raise ValueError(f"window must be at least 1 and unseen in [0, 1], not {self.window} and {self.unseen}")

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        known = rewards[-self.window :]
        rate = float(np.clip(np.mean(known), 0, 1)) if known else self.unseen
        # A gradient is worth less than 1, so what is unsolved comes first.
        return gradient_worth(rate, counts) if rate > 0 else np.minimum(counts, self.unsolved).astype(float)


def gradient_worth(rate: float, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """`V(N, p)` of every N in `counts` `[K]`."""
    both = 1 - rate ** counts.astype(float) - (1 - rate) ** counts.astype(float)
    worth: NDArray[np.float64] = both * rate * (1 - rate) ** 2
    return worth


KNAPSACK_RL = GRPO.but(
    name="knapsack-rl",
    title="Samples shared out as a knapsack is filled",
    source="Li et al., Knapsack RL, arXiv:2509.25849",
    family="data-and-rollout",
    catalogue_ids=("knapsack-rl",),
    axes=("data", "rollout"),
    formula="max sum_q V(N_q, p_q), V = (1 - p^N - (1-p)^N) p (1-p)^2, sum_q N_q = total, low <= N_q <= high",
    conventions={
        **GRPO.conventions,
        "solver": "each next sample where it adds most, which is exact as V is concave; the paper solves a programme",
        "bounds": "2 to 128 samples of a scenario; the total is rollout.samples = 8 times the scenarios of a step",
        "success rate": "mean reward of the last two groups; 0.5 before the first",
        "rate 1": "the fewest samples, until some come out wrong",
        "rate 0": "eight samples, served first (rollout.value.unsolved); how much the paper falls back on is not known",
        "scenarios": "all of a finite task and 256 of an endless one (curriculum.pool) come again in random order",
    },
    curriculum=Weighted(),
    rollout=Allocated(value=GradientWorth(), samples=8),
)

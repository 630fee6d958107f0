"""CurES: scenarios and samples by how much their gradients vary (Zeng et al., arXiv:2510.01037).

A Beta posterior follows each scenario's success rate; scenarios are drawn with probability proportional to
`exp(sqrt(p (1-p)) / T)` (`SpreadValue`), and samples shared out in proportion to the deviation of the scenario's
gradient, which makes the variance of the whole least (Neyman allocation; `NeymanWorth`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.posterior import Outcomes
from hocket.curriculum.weighted import Value, Weighted
from hocket.methods.base.grpo import GRPO
from hocket.rollout.allocated import Allocated, Worth


@dataclass(frozen=True)
class SpreadValue(Value):
    """`exp(sqrt(p (1-p)) / temperature)`, p the posterior mean of the success rate: CurES (arXiv 2510.01037).

    The released code has a temperature of 100 (successes + 1), which draws almost evenly; here it is a setting.
    """

    temperature: float = 0.1

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return math.exp(outcomes.spread / self.temperature)


def gradient_variance(rate: float, right: float, wrong: float) -> float:
    """`p q^2 g_r^2 + p^2 q g_w^2 - p^2 q^2 (g_r - g_w)^2`, q = 1 - p, of the norms g of right and wrong samples."""
    rest = 1 - rate
    return rate * rest**2 * right**2 + rate**2 * rest * wrong**2 - (rate * rest * (right - wrong)) ** 2


@dataclass(frozen=True)
class NeymanWorth(Worth):
    """`-sigma^2 / n`: what is left of a scenario's gradient variance after n samples (CurES, arXiv 2510.01037).

    Its sum is largest where n is proportional to sigma (Neyman), rounded as well as whole numbers can be.

    Attributes:
        right, wrong: norms of the gradient of a right and of a wrong sample's log-prob, of which only the ratio
            matters. One pair for all scenarios; equal, they make sigma `g sqrt(p (1-p))`.
    """

    right: float = 1.0
    wrong: float = 1.0

    def __post_init__(self) -> None:
        if min(self.right, self.wrong) < 0:
            raise ValueError(f"right and wrong are norms, at least 0, not {self.right} and {self.wrong}")

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        left: NDArray[np.float64] = -gradient_variance(outcomes.mean, self.right, self.wrong) / counts
        return left


CURES = GRPO.but(
    name="cures",
    title="Scenarios and samples by the variance of their gradients",
    source="CurES, arXiv:2510.01037; ZexuSun/CurES",
    family="data-and-rollout",
    catalogue_ids=("cures",),
    axes=("data", "rollout"),
    formula="P(q) ~ exp(sqrt(p_q (1 - p_q))/T), p_q = (1 + right)/(2 + tried);  n_q ~ sigma_q, sum_q n_q = total",
    conventions={
        **GRPO.conventions,
        "temperature": "T = curriculum.value.temperature = 0.1; the released 100 (right + 1) draws almost evenly",
        "counts": "of the whole run, without forgetting, as in the released code",
        "first pass": "every scenario of the pool once; the paper begins with four samples of each",
        "bounds": "2 to 16 samples of a scenario; the paper's most is 16",
    },
    note="norms of the gradients of single samples are one pair of settings, not measured per scenario",
    curriculum=Weighted(value=SpreadValue()),
    rollout=Allocated(value=NeymanWorth(), samples=8, high=16),
)

"""MMR1's variance-aware sampling: scenarios whose outcomes vary are asked more (Leng et al., arXiv:2509.21268).

A scenario's score is the variance of its outcomes, `p (1 - p)` by its recent success rate (`OutcomeVariance`); a share
lambda of each step's scenarios is drawn in proportion to it, the rest evenly (`Weighted`). The expected gradient of a
scenario grows with this variance and is 0 without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hocket.core.posterior import Outcomes
from hocket.curriculum.weighted import Value, Weighted
from hocket.methods.base.grpo import GRPO


@dataclass(frozen=True)
class OutcomeVariance(Value):
    """`weight p (1 - p)`, p the mean of the last `window` groups' rewards, cut to [0, 1]: MMR1 (arXiv 2509.21268).

    Attributes:
        unseen: p before the first group.
    """

    weight: float = 1.0
    window: int = 4
    unseen: float = 0.5

    def __post_init__(self) -> None:
        if self.window < 1 or self.weight <= 0 or not 0 <= self.unseen <= 1:
            raise ValueError(
                f"weight must be positive, window at least 1 and unseen in [0, 1], not {self.weight}, {self.window}, "
                f"{self.unseen}"
            )

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        known = rewards[-self.window :]
        rate = float(np.clip(np.mean(known), 0, 1)) if known else self.unseen
        return self.weight * rate * (1 - rate)


MMR1_VAS = GRPO.but(
    name="mmr1-vas",
    title="Variance-aware sampling of scenarios",
    source="MMR1, arXiv:2509.21268",
    family="data-and-rollout",
    catalogue_ids=("mmr1-vas",),
    axes=("data", "analysis"),
    formula="P(q) = lambda VPS(q)/sum VPS + (1 - lambda)/|Q|,  VPS = p (1 - p)",
    conventions={
        **GRPO.conventions,
        "lambda": "curriculum.even = 1 - lambda = 0.3, chosen here",
        "pass rate": "of the last four groups, as training samples them; the paper refreshes probes every few steps",
        "draws": "without replacement within a step",
        "scenarios": "a pool of 256 (curriculum.pool), each asked once before any is drawn",
    },
    note="on text, and by the variance of outcomes alone: the paper adds a score of how different the answers are",
    curriculum=Weighted(value=OutcomeVariance(), even=0.3),
)

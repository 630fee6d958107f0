"""MMR1's variance-aware sampling: scenarios whose outcomes and answers vary are asked more (arXiv:2509.21268).

A scenario's variance promotion score (Leng et al.) adds the variance of its outcomes, `p (1 - p)` by its recent success
rate, and how different its answers are, 1 minus their self-BLEU (`VariancePromotion`). A share lambda of each step's
scenarios is drawn in proportion to it, the rest evenly (`Weighted`). The expected gradient of a scenario grows with the
variance of its reward and is 0 without it. Of that variance the first term estimates what is left within a way of
thinking, the second bounds from below what lies between ways; so a scenario that nobody has solved yet is still asked
where its answers differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.columns import Column
from hocket.core.posterior import Outcomes
from hocket.core.unlikeness import UNLIKENESS
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


@dataclass(frozen=True)
class VariancePromotion(Value):
    """`alpha p (1 - p) + beta d`: MMR1's score of a scenario (arXiv 2509.21268).

    d is how different the answers of the last group were, 1 minus their self-BLEU (`hocket.core.unlikeness`), and 0
    while nothing is known of it, as of groups of one.

    Attributes:
        outcome: the first term, its weight alpha. diversity: beta.
    """

    outcome: OutcomeVariance = OutcomeVariance(weight=0.8)
    diversity: float = 0.2

    reads: ClassVar[frozenset[Column]] = frozenset({UNLIKENESS})

    def __post_init__(self) -> None:
        if self.diversity < 0:
            raise ValueError(f"diversity must be at least 0, not {self.diversity}")

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return self.outcome(outcomes, rewards) + self.diversity * (outcomes.unlikeness or 0.0)


MMR1_VAS = GRPO.but(
    name="mmr1-vas",
    title="Variance-aware sampling of scenarios",
    source="MMR1, arXiv:2509.21268",
    family="data-and-rollout",
    catalogue_ids=("mmr1-vas",),
    axes=("data", "analysis"),
    formula="P(q) = lambda VPS(q)/sum VPS + (1 - lambda)/|Q|,  VPS = alpha p (1 - p) + beta (1 - self-BLEU)",
    conventions={
        **GRPO.conventions,
        "lambda": "0.5 as published: curriculum.even = 1 - lambda",
        "alpha, beta": "0.8 and 0.2 as published",
        "diversity": "1 - self-BLEU of 1- to 3-grams of decisions, as the paper and its release name it first; shorter "
        "answers by the orders they have; in [0, 1], where the release weighs its raw value",
        "probes": "none: pass rates are of the last four groups and diversity is of the last one, as training samples "
        "them; the paper samples 32 of every question anew every few steps",
        "draws": "without replacement within a step",
        "scenarios": "all of a finite task and 256 of an endless one (curriculum.pool), each asked once "
        "before any is drawn",
    },
    curriculum=Weighted(value=VariancePromotion(), even=0.5),
)

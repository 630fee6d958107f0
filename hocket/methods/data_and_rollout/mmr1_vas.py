"""MMR1's variance-aware sampling: scenarios whose outcomes and answers vary are asked more (arXiv:2509.21268).

A scenario's variance promotion score (Leng et al.) adds the variance of its outcomes, `p (1 - p)` by its recent success
rate, and how different its answers are, 1 minus their self-BLEU (`VariancePromotion`). A share lambda of each step's
scenarios is drawn in proportion to it, the rest evenly (`Weighted`). The expected gradient of a scenario grows with the
variance of its reward and is 0 without it. Of that variance the first term estimates what is left within a way of
thinking, the second bounds from below what lies between ways; so a scenario that nobody has solved yet is still asked
where its answers differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.columns import InfoColumn
from hocket.core.posterior import Outcomes
from hocket.core.statistics import SampleStatistic
from hocket.curriculum.scenario_worth import Value, Weighted
from hocket.methods.base.grpo import GRPO
from hocket.types import Trajectory

ORDERS = 3
"""N-grams of 1 to so many decisions count, all alike."""

UNMATCHED = 0.1
"""What counts as matched where some decisions are and no n-gram of an order is (method 1 of Chen and Cherry 2014)."""


def bleu(answer: Sequence[Hashable], others: Sequence[Sequence[Hashable]]) -> float:
    """Sentence BLEU of a sequence against several, in [0, 1]: the geometric mean of clipped precisions, and brevity.

    Orders longer than the sequence are left out, so one that some other equals has 1. One without any decision of the
    others' has 0, and an empty one is like empty ones alone.
    """
    if not answer:
        return float(any(not other for other in others))
    total, orders = 0.0, min(ORDERS, len(answer))
    for order in range(1, orders + 1):
        known = Counter[tuple[Hashable, ...]]()
        for other in others:
            known |= _grams(other, order)
        grams = _grams(answer, order)
        matched = (grams & known).total()
        if order == 1 and not matched:
            return 0.0
        total += math.log(matched or UNMATCHED) - math.log(grams.total())
    nearest = min((len(other) for other in others), key=lambda length: (abs(length - len(answer)), length))
    return math.exp(total / orders + min(0.0, 1 - nearest / len(answer)))


def _grams(answer: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(tuple(answer[at : at + order]) for at in range(len(answer) - order + 1))


def unlikenesses(samples: Sequence[Trajectory]) -> list[float | None]:
    """`1 - BLEU(sample | the others of its scenario)` over decisions, of each sample; None of one alone.

    A group's mean is 1 minus its self-BLEU (Zhu et al. 2018, arXiv:1802.01886).
    """
    groups: dict[str, list[int]] = {}
    for place, sample in enumerate(samples):
        groups.setdefault(sample.scenario.id, []).append(place)
    answers = [[decision.tobytes() for turn in one.turns for decision in turn.action] for one in samples]
    numbers: list[float | None] = [None] * len(samples)
    for group in groups.values():
        for place in group if len(group) > 1 else ():
            numbers[place] = 1 - bleu(answers[place], [answers[other] for other in group if other != place])
    return numbers


UNLIKENESS = SampleStatistic(
    "unlikeness",
    InfoColumn("unlikeness", "How little the sample's decisions are like those of the others of its group, in [0, 1]."),
    of_samples=unlikenesses,
)


def unlikeness_of(outcomes: Outcomes) -> float | None:
    """How different the answers of the last group were, in [0, 1]; None where nothing is known of it."""
    summary = outcomes.statistics.get(UNLIKENESS.name)
    return None if summary is None else summary.last_mean


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

    d is how different the answers of the last group were, 1 minus their self-BLEU (`unlikenesses`), and 0
    while nothing is known of it, as of groups of one.

    Attributes:
        outcome: the first term, its weight alpha. diversity: beta.
    """

    outcome: OutcomeVariance = OutcomeVariance(weight=0.8)
    diversity: float = 0.2

    statistics: ClassVar[frozenset[SampleStatistic]] = frozenset({UNLIKENESS})

    def __post_init__(self) -> None:
        if self.diversity < 0:
            raise ValueError(f"diversity must be at least 0, not {self.diversity}")

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return self.outcome(outcomes, rewards) + self.diversity * (unlikeness_of(outcomes) or 0.0)


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

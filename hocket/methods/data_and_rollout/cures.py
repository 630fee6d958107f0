"""CurES: scenarios and samples by how much their gradients vary (Zeng et al., arXiv:2510.01037).

A Beta posterior follows each scenario's success rate; scenarios are drawn with probability proportional to
`exp(sqrt(p (1-p)) / T)` (`SpreadValue`), and samples shared out in proportion to the deviation of the scenario's
gradient, which makes the variance of the whole least (Neyman allocation; `NeymanWorth`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.annotators import Annotator, of_distributions
from hocket.core.batch import Batch
from hocket.core.columns import InfoColumn
from hocket.core.posterior import Outcomes
from hocket.core.segments import segment_sum
from hocket.core.statistics import Moments, SampleStatistic
from hocket.curriculum.scenario_worth import Value, Weighted
from hocket.methods.base.grpo import GRPO
from hocket.rollout.allocation import Allocated, Worth
from hocket.stages import Policy


def score_norm(logp: Tensor, action: Tensor) -> Tensor:
    """`|e_a - pi|^2 = 1 - 2 pi(a) + sum_b pi(b)^2` of log-probs `[K, V]` and actions `[K]`: `[K]`.

    The squared norm of the gradient of log pi(a) by the logits at temperature 1.
    """
    chance = logp.exp()
    return 1 - 2 * chance.gather(1, action[:, None])[:, 0] + chance.square().sum(1)


def _score_norms(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    norms = of_distributions(batch, policy, decisions, score_norm)
    # Where there are no distributions over discrete actions, all decisions count the same.
    return torch.ones(batch.decisions, dtype=torch.float64) if norms is None else norms


SCORE_NORM = Annotator(
    "score_norm",
    "The squared norm of the gradient of each decision's log-prob by its logits, [T].",
    compute=_score_norms,
)


def gradient_norms(batch: Batch) -> list[float | None]:
    """The norm of the gradient of each trajectory's log-prob by its logits, `[N]`: over its decisions that count."""
    if SCORE_NORM.name not in batch.annotations:
        return [None] * batch.trajectories
    occurrences = batch.occurrences
    square = torch.where(occurrences.weight != 0, batch.annotations[SCORE_NORM.name][occurrences.decision], 0.0)
    return [total**0.5 for total in segment_sum(square, occurrences.trajectory, batch.trajectories).tolist()]


GRADIENT_NORM = SampleStatistic(
    "norms",
    InfoColumn(
        "gradient_norm",
        "The norm of the gradient of the sample's log-prob by its logits; where a stage declares the statistic.",
    ),
    of_batch=gradient_norms,
    reads=frozenset({SCORE_NORM}),
)


class Norms(NamedTuple):
    """Means over a scenario's right and over its wrong samples of their gradients' norms, and of the squares.

    A side without samples has the other's.
    """

    right: float
    right_square: float
    wrong: float
    wrong_square: float

    @staticmethod
    def of(outcomes: Outcomes) -> Norms | None:
        """Those of a scenario, None where none was measured."""
        summary = outcomes.statistics.get(GRADIENT_NORM.name)
        if summary is None:
            return None
        right, wrong = _means(summary.successes), _means(summary.failures)
        right, wrong = right or wrong, wrong or right
        return Norms(*right, *wrong) if right and wrong else None


def _means(moments: Moments) -> tuple[float, float] | None:
    return (moments.total / moments.samples, moments.squares / moments.samples) if moments.samples else None


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


def gradient_variance(rate: float, norms: Norms) -> float:
    """`p q^2 E[g^2|right] + p^2 q E[g^2|wrong] - p^2 q^2 (E[g|right] - E[g|wrong])^2`, q = 1 - p: equation 127."""
    rest = 1 - rate
    square = rest * norms.right_square + rate * norms.wrong_square
    return rate * rest * (square - rate * rest * (norms.right - norms.wrong) ** 2)


@dataclass(frozen=True)
class NeymanWorth(Worth):
    """`-sigma^2 / n`: what is left of a scenario's gradient variance after n samples (CurES, arXiv 2510.01037).

    Its sum is largest where n is proportional to sigma (Neyman), rounded as well as whole numbers can be. Norms of the
    gradients of samples' log-probs are measured as they are learnt from (`GRADIENT_NORM`); before a
    scenario's first group they count as `unseen`.
    """

    unseen: float = 1.0

    statistics: ClassVar[frozenset[SampleStatistic]] = frozenset({GRADIENT_NORM})

    def __post_init__(self) -> None:
        if self.unseen <= 0:
            raise ValueError(f"unseen is a norm, above 0, not {self.unseen}")

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        alike = Norms(self.unseen, self.unseen**2, self.unseen, self.unseen**2)
        left: NDArray[np.float64] = -gradient_variance(outcomes.mean, Norms.of(outcomes) or alike) / counts
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
        "norms": "of a sample's log-prob by the logits, over all decisions; the released code has that by the input "
        "embeddings, measured once before training, here as samples are learnt from",
        "one outcome alone": "the other's norms are taken to be its own; the released code takes 0",
        "bounds": "2 to 16 samples of a scenario; the paper's most is 16",
    },
    curriculum=Weighted(value=SpreadValue()),
    rollout=Allocated(value=NeymanWorth(), samples=8, high=16),
)

"""KL penalties towards a reference policy.

Three estimators of KL(pi || ref) from one sampled action, with d = log pi(a) - log ref(a) (Schulman, "Approximating KL
divergence", 2020). Under a ~ pi, and used as a loss term (differentiated with the sample held fixed):

    k1 = d                   value unbiased        expected gradient 0: no penalty at all
    k2 = d^2 / 2             value biased          expected gradient that of KL(pi || ref)
    k3 = exp(-d) - 1 + d     value unbiased, >= 0  expected gradient that of KL(ref || pi)

Multiplied by the differentiable ratio pi/pi_old, k1 and k3 get both the value and the gradient of KL(pi || ref), for
samples of any pi_old (DeepSeek-V3.2, arXiv 2512.02556, "unbiased KL estimate").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.schedules import Setting, bounds, value_at
from hocket.objectives.aggregate import HORIZON, Aggregate, check, mean, weights
from hocket.objectives.ratios import log_ratios, recorded, saturated
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(difference: Tensor, estimator: Estimator) -> Tensor:
    """The estimator's value, any shape, for d = log pi - log ref. k3 saturates at |d| = 50 (see `saturated`)."""
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference.square() / 2
    bounded = saturated(difference)
    # expm1 keeps the value accurate for small d, where the three parts cancel.
    return (-bounded).expm1() + bounded


@dataclass(frozen=True)
class KLToReference(Objective):
    """Adds coefficient * estimate of KL(pi || reference) at the sampled decisions.

    Attributes:
        estimator: see the table at the top of this module for the gradient of each.
        coefficient: in units of loss per nat, a number or a schedule. DeepSeekMath uses k3 with 0.04.
        aggregate, horizon: as in the main objective.
        unbiased: multiply by the differentiable ratio pi/pi_old (saturated), which gives the gradient of
            KL(pi || reference) also off-policy.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    estimator: Estimator = "k3"
    coefficient: Setting = 0.04
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON
    unbiased: bool = False

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.estimator not in get_args(Estimator):
            raise ValueError(f"estimator is {self.estimator!r}; choose from {', '.join(get_args(Estimator))}")
        if bounds(self.coefficient)[0] < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    @property
    def reads(self) -> frozenset[Column]:
        return frozenset({Column.REFERENCE, Column.BEHAVIOUR} if self.unbiased else {Column.REFERENCE})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        difference = now.logp[occurrences.decision] - recorded(batch, "reference")[occurrences.decision].to(dtype)
        estimate = kl_estimate(difference, self.estimator)
        if self.unbiased:
            estimate = saturated(log_ratios(now, batch)).exp() * estimate
        metrics = {"kl/reference": mean(kl_estimate(difference.detach(), "k3"), occurrences.weight != 0)}
        weight = weights(batch, self.aggregate, self.horizon, dtype=dtype)
        coefficient = value_at(self.coefficient, batch.progress)
        return Terms(coefficient * estimate, weight, metrics=metrics)


@dataclass(frozen=True)
class ExactKL(Objective):
    """Adds coefficient * KL(pi || reference), summed over all actions at each decision: value and gradient exact.

    The coefficient is a number or a schedule.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: Setting = 0.04
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.KL_EXACT})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if bounds(self.coefficient)[0] < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        exact = now.get(Quantity.KL_EXACT)[occurrences.decision]
        weight = weights(batch, self.aggregate, self.horizon, dtype=exact.dtype)
        coefficient = value_at(self.coefficient, batch.progress)
        return Terms(coefficient * exact, weight, metrics={"kl/reference": mean(exact, occurrences.weight != 0)})

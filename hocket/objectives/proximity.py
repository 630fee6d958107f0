"""Leashes to the policy that sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.objectives.aggregate import HORIZON, Aggregate, check, counted_lengths, mean, trajectory_sums, weights
from hocket.objectives.divergence import kl_estimate
from hocket.objectives.drift import reach
from hocket.objectives.ratios import log_ratios, saturated
from hocket.stages import Objective
from hocket.types import Batch, Column, Evaluation, Level, Quantity, Terms


@dataclass(frozen=True)
class LogRatioPenalty(Objective):
    """Adds coefficient * (log pi - log pi_old)^2, of single decisions or of whole trajectories.

    OPMD's term tau/2 (log pi(y)/pi_old(y))^2 (Kimi k1.5, arXiv 2501.12599; group-relative REINFORCE, arXiv 2509.24203)
    is coefficient = tau/2 at level `sequence`. Near pi_old its mean over samples is 2 coefficient KL, to second order.

    Attributes:
        level: `sequence` squares the sum over a trajectory and averages over trajectories; `decision` squares each
            decision's and aggregates.
    """

    coefficient: float = 0.5
    level: Literal["decision", "sequence"] = "sequence"
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.level not in ("decision", "sequence"):
            raise ValueError(f"level must be 'decision' or 'sequence', not {self.level!r}")
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    @property
    def couples(self) -> Level:
        return Level.DECISION if self.level == "decision" else Level.TRAJECTORY

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        log_ratio = log_ratios(now, batch)
        if self.level == "decision":
            weight = weights(batch, self.aggregate, self.horizon, dtype=log_ratio.dtype)
            return Terms(self.coefficient * log_ratio.square(), weight)
        counted = counted_lengths(batch) > 0
        value = self.coefficient * trajectory_sums(log_ratio, batch).square()
        return Terms(value, counted.to(value.dtype) / counted.sum().clamp(min=1), Level.TRAJECTORY)


@dataclass(frozen=True)
class KLToOld(Objective):
    """Adds coefficient * k3, the estimate of KL(pi || pi_old) at the sampled decisions (see `divergence`).

    With `root` = e it is coefficient * sqrt(mean k3 + e), whose pull stays bounded: TRPA's second form
    (arXiv 2504.04524, e = 0.25 in the released code). The mean couples the whole batch.
    """

    coefficient: float = 0.001
    root: float | None = None
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.coefficient < 0 or (self.root is not None and self.root <= 0):
            raise ValueError(
                f"coefficient must be at least 0 and root None or positive, not {self.coefficient} and {self.root}"
            )

    @property
    def couples(self) -> Level:
        return Level.DECISION if self.root is None else Level.BATCH

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        estimate = kl_estimate(log_ratios(now, batch), "k3")
        weight = weights(batch, self.aggregate, self.horizon, dtype=estimate.dtype)
        metrics = {"kl/old": mean(estimate, batch.occurrences.weight != 0)}
        if self.root is None:
            return Terms(self.coefficient * estimate, weight, metrics=metrics)
        value = self.coefficient * (_total(estimate, weight) + self.root).sqrt()
        return Terms(value[None], _once(weight), Level.BATCH, metrics)


@dataclass(frozen=True)
class HingeTrustRegion(Objective):
    """Adds coefficient/2 * max(0, KL(pi_old || pi) - radius)^2: nothing inside the ball, a spring outside.

    DisCO (arXiv 2505.12366); radius 1e-4 and coefficient 1e3 are its scripts'. KL is the mean over counted decisions of
    an unbiased estimate, r - 1 - log r (`k3`) or -log r (`k1`), r = pi/pi_old; so its gradient is
    coefficient * max(0, KL - radius) * grad KL. Log-ratios saturate at +-50 nats, in float32 at 40, since r is squared.
    """

    radius: float = 1e-4
    coefficient: float = 1e3
    estimator: Literal["k1", "k3"] = "k3"

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.BATCH
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.radius < 0 or self.coefficient < 0:
            raise ValueError(f"radius and coefficient must be at least 0, not {self.radius} and {self.coefficient}")
        if self.estimator not in ("k1", "k3"):
            raise ValueError(f"estimator must be 'k1' or 'k3', not {self.estimator!r}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        # The roles are exchanged: samples are of pi_old, so log pi_old - log pi is what k1 averages.
        log_ratio = log_ratios(now, batch)
        estimate = kl_estimate(-saturated(log_ratio, reach(log_ratio.dtype, 2)), self.estimator)
        weight = weights(batch, "token-mean", dtype=estimate.dtype)
        divergence = _total(estimate, weight)
        value = self.coefficient / 2 * (divergence - self.radius).clamp(min=0).square()
        return Terms(value[None], _once(weight), Level.BATCH, {"kl/trust": divergence.detach().double()})


def _total(values: Tensor, weight: Tensor) -> Tensor:
    """sum_k w_k x_k over the terms that count, a scalar."""
    used = weight != 0
    return (values[used] * weight[used]).sum()


def _once(weight: Tensor) -> Tensor:
    """The weight of a single term of the whole batch: 1, or 0 when nothing counts."""
    return torch.any(weight != 0).to(weight.dtype)[None]

"""The surrogate of mirror learning: an importance-weighted advantage minus a drift.

A drift f(r, A) is at least 0, and at r = 1 both f and its derivative in r are 0 (Grudzien et al., Mirror Learning,
arXiv 2201.02373). So at the behaviour policy every member of the family has the policy gradient; members differ only
away from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import BOUND, log_ratios, saturated, saturation
from hocket.stages import Objective, Stage, fact
from hocket.types import Evaluation, Quantity, Terms


class Drift(Stage):
    """A penalty on the distance from the behaviour policy."""

    room = "objectives"

    @fact
    def power(self) -> int:
        """The highest power of the ratio in it, which determines where log-ratios must saturate."""
        return 1

    @fact
    def regardless_of_advantage(self) -> bool:
        """Whether it does not vanish where the advantage is 0."""
        return False

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        """f(r, A) at each occurrence, `[E]`, differentiable in `log_ratio`; `progress` is that of the run."""
        raise NotImplementedError


def reach(dtype: torch.dtype, power: int) -> float:
    """The bound at which log-ratios saturate, in nats.

    It is 50, or less if that power of a ratio would overflow `dtype` (40 for a square in float32, with a margin of e^8
    for factors and sums).
    """
    return min(BOUND, (math.log(torch.finfo(dtype).max) - 8.0) / power)


def clip_drift(log_ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    """f = relu((r - clip(r, 1-low, 1+high)) A), all `[E]`: with it the surrogate is PPO's (arXiv 2201.02373)."""
    ratio = log_ratio.exp()
    return ((ratio - ratio.clamp(1 - low, 1 + high)) * advantage).relu()


def tanh_drift(log_ratio: Tensor, advantage: Tensor, alpha: float, beta: float) -> Tensor:
    """DPO's drift, all `[E]` (Discovered Policy Optimisation, Lu et al. 2022, arXiv 2210.05639).

    f = relu(x - alpha tanh(x / alpha)) with x = (r - 1) A for A >= 0, and
    f = relu(y - beta tanh(y / beta)) with y = A log r for A < 0.
    """
    rising, falling = log_ratio.expm1() * advantage, log_ratio * advantage
    above = (rising - alpha * (rising / alpha).tanh()).relu()
    below = (falling - beta * (falling / beta).tanh()).relu()
    return torch.where(advantage >= 0, above, below)


@dataclass(frozen=True)
class ClipDrift(Drift):
    """PPO's clip written as a drift; see `clip_drift`."""

    low: float = 0.2
    high: float = 0.2

    power: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        return clip_drift(log_ratio, advantage, self.low, self.high)


@dataclass(frozen=True)
class DriftSurrogate(Objective):
    """Minimises -(r A - f(r, A)), r the ratio to the behaviour policy (proximal where recorded).

    Without a drift it is the plain importance-weighted surrogate -r A, the objective of TRPO.

    Attributes:
        drift: f; None for 0. A `ClipDrift` gives PPO, a `QuadraticDrift` SPO, a `ForwardKLDrift` MDPO, a `TanhDrift`
            or `LearntDrift` discovered policy optimisation.
        aggregate, horizon: see `hocket.objectives.aggregate`; `horizon` is the L of `constant-length`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    drift: Drift | None = None
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)

    @property
    def idle_without_advantage(self) -> bool:
        """True unless the drift ignores the advantage; any other drift is 0 where the advantage is 0."""
        return self.drift is None or not self.drift.regardless_of_advantage

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        advantage = occurrences.advantage.detach().to(dtype)
        bound = reach(dtype, 1 if self.drift is None else self.drift.power)
        log_ratio = log_ratios(now, batch)
        bounded = saturated(log_ratio, bound)
        value = -bounded.exp() * advantage
        penalty = torch.zeros_like(value)
        if self.drift is not None:
            penalty = self.drift(bounded, advantage, batch.progress)
        active = (occurrences.weight != 0) & ((occurrences.advantage != 0) | (not self.idle_without_advantage))
        away = bounded.detach().expm1().abs()
        metrics = {
            "ratio/furthest": away[active].max().double() if bool(active.any()) else torch.zeros(()),
            "ratio/drifting": share(penalty.detach() > 0, active),
            "ratio/saturated": saturation(log_ratio, active, bound),
        }
        weight = weights(batch, self.aggregate, self.horizon, dtype=dtype)
        return Terms(value + penalty, weight, self.couples, metrics)


def quadratic_drift(log_ratio: Tensor, advantage: Tensor, epsilon: float) -> Tensor:
    """f = |A| (r - 1)^2 / (2 epsilon), all `[E]` (Simple Policy Optimization, arXiv 2401.16025).

    r A - f is concave in r, with its maximum at r = 1 + epsilon sign(A): further out the gradient points back.
    """
    return advantage.abs() * log_ratio.expm1().square() / (2 * epsilon)

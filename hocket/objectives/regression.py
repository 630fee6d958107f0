"""Policy optimisation by least squares: log-ratios are fitted to advantages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_mean
from hocket.objectives.aggregate import counted_lengths, mean, trajectory_means, trajectory_sums
from hocket.objectives.ratios import anchor, recorded
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

Against = Literal["old", "reference"]


def squared_residual(advantage: Tensor, drift: Tensor, temperature: float) -> Tensor:
    """x = (A - temperature * d)^2, `[N]`, for drifts d = log pi(y) - log pi_anchor(y); `advantage` is constant."""
    return (advantage.detach() - temperature * drift).square()


@dataclass(frozen=True)
class AdvantageRegression(Objective):
    """Minimises c (A_i - tau d_i)^2 over trajectories, d_i = log pi(y_i) - log pi_anchor(y_i) summed over decisions.

    With log-ratios centred within each group the prompt's normaliser cancels. The minimiser is pi_anchor exp(A/tau)/Z
    for any behaviour policy with full support, without ratio and clip.

        Kimi k1.5 (arXiv 2501.12599)     not centred, tau; A = R - mean R stands in for R - tau log Z
        GVPO (arXiv 2504.19599)          centred, tau = beta, c = 1/2, unbiased
        Reg-GRPO (arXiv 2506.07464)      centred, tau = 1/s, c = 1, standardised A

    Attributes:
        temperature: tau, the weight of KL(pi || anchor) in the optimisation problem.
        centred: subtract the group's mean drift.
        against: the anchor: `old`, see `hocket.objectives.ratios.anchor`, or `reference`.
        coefficient: c; None is 1/(2 tau), with which the gradient at the anchor is the policy gradient.
        unbiased: divide by G - 1 within a group and average over groups, instead of averaging over trajectories.
    """

    temperature: float = 1.0
    centred: bool = False
    against: Against = "old"
    coefficient: float | None = None
    unbiased: bool = False

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    # With advantage 0 the fit still pulls towards the anchor.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.against not in get_args(Against):
            raise ValueError(f"against is {self.against!r}; choose from {', '.join(get_args(Against))}")
        if self.temperature <= 0 or (self.coefficient is not None and self.coefficient <= 0):
            raise ValueError(
                f"temperature must be positive and coefficient None or positive, not {self.temperature} and "
                f"{self.coefficient}"
            )

    @property
    def reads(self) -> frozenset[Column]:
        return frozenset({Column.REFERENCE if self.against == "reference" else Column.BEHAVIOUR})

    @property
    def couples(self) -> Level:
        return Level.GROUP if self.centred or self.unbiased else Level.TRAJECTORY

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        groups = GroupBy("scenario")(batch)
        counted = counted_lengths(batch) > 0
        old = recorded(batch, "reference") if self.against == "reference" else anchor(batch)
        drift = trajectory_sums((now.logp - old.to(dtype))[occurrences.decision], batch)
        if self.centred:
            drift = drift - segment_mean(drift[counted], groups.index[counted], groups.size)[groups.index]
        advantage = trajectory_means(occurrences.advantage.detach().to(dtype), batch)
        factor = 1 / (2 * self.temperature) if self.coefficient is None else self.coefficient
        value = factor * squared_residual(advantage, drift, self.temperature)
        metrics = {"regression/residual": mean(squared_residual(advantage, drift, self.temperature), counted)}
        return Terms(value, self._weight(counted, groups.index, groups.size).to(dtype), self.couples, metrics)

    def _weight(self, counted: Tensor, group: Tensor, size: int) -> Tensor:
        """The weight of each trajectory, `[N]` float64."""
        if not self.unbiased:
            return counted.double() / counted.sum().clamp(min=1)
        members = segment_count(group[counted], size).double()
        share = 1 / ((members - 1).clamp(min=1) * (members > 0).sum().clamp(min=1))
        return torch.where(counted, share[group], 0.0)

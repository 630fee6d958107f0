"""A quadratic penalty on log-ratios to the behaviour policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.objectives.aggregate import HORIZON, Aggregate, check, counted_lengths, trajectory_sums, weights
from hocket.objectives.ratios import log_ratios
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class LogRatioPenalty(Objective):
    """Adds coefficient * (log pi - log pi_old)^2, of single decisions or of whole trajectories.

    OPMD's term tau/2 (log pi(y)/pi_old(y))^2 (Kimi k1.5, arXiv 2501.12599; group-relative REINFORCE, arXiv 2509.24203)
    is coefficient = tau/2 at level `sequence`. Near pi_old its mean over samples is 2 coefficient KL, to second order.

    Attributes:
        level: `sequence` squares the sum over a trajectory and averages over trajectories; `decision` squares each
            decision's and aggregates.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

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

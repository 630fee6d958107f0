"""The policy gradient with a clipped, constant importance weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def clipped_importance_weight(logp: Tensor, ratio: Tensor, advantage: Tensor, low: float | None, high: float) -> Tensor:
    """x = -sg[clip(r, 1-low, 1+high)] A log pi(a), all `[E]` (CISPO, MiniMax-M1, arXiv 2506.13585).

    With `low` None, small ratios are not clipped. The gradient is -clip(r) A grad log pi, also for clipped decisions.
    """
    weight = ratio.detach().clamp(min=None if low is None else 1 - low, max=1 + high)
    return -weight * advantage * logp


@dataclass(frozen=True)
class ClippedImportanceWeight(Objective):
    """CISPO: clips the importance weight instead of the update, so that no decision loses its gradient.

    Attributes:
        low: lower clip, weight at least 1 - low; None, the paper's choice, for no lower bound.
        high: upper clip, weight at most 1 + high. The paper tunes it and gives no number; 4 caps the weight at 5, the
            order of magnitude of ScaleRL (arXiv 2510.13786).
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float | None = None
    high: float = 4.0
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.high < 0 or (self.low is not None and not 0 <= self.low <= 1):
            raise ValueError(f"high must be at least 0 and low None or in [0, 1], not {self.high} and {self.low}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        log_ratio = log_ratios(now, batch).detach()
        ratio = saturated(log_ratio).exp()
        advantage = occurrences.advantage.detach().to(dtype)
        value = clipped_importance_weight(now.logp[occurrences.decision], ratio, advantage, self.low, self.high)
        active = (occurrences.weight != 0) & (occurrences.advantage != 0)
        clipped = ratio > 1 + self.high
        if self.low is not None:
            clipped = clipped | (ratio < 1 - self.low)
        metrics = {"ratio/clipped": share(clipped, active), "ratio/saturated": saturation(log_ratio, active)}
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), metrics=metrics)

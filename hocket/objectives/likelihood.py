"""Supervised learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import HORIZON, Aggregate, check, weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class NegativeLogLikelihood(Objective):
    """Minimises -log pi(a): maximum likelihood of the decisions that count. Advantages are not read, weights are."""

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value = -now.logp[batch.occurrences.decision]
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=value.dtype))

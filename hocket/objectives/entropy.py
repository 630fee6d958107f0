"""The entropy bonus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import HORIZON, Aggregate, check, mean, weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class EntropyBonus(Objective):
    """Adds -coefficient * H(pi) at each decision, H in nats over all actions (PPO's S, arXiv 1707.06347, eq. 9)."""

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 0.01
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ENTROPY})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        entropy = now.get(Quantity.ENTROPY)[occurrences.decision]
        weight = weights(batch, self.aggregate, self.horizon, dtype=entropy.dtype)
        return Terms(-self.coefficient * entropy, weight, metrics={"entropy": mean(entropy, occurrences.weight != 0)})

"""Imitation of forced decisions, beside what a policy learns from its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class Imitation(Objective):
    """Minimises -log pi(a | s) of forced decisions, which a person or a search made, over the number of all decisions.

    Attributes:
        coefficient: its factor beside the loss of the policy's own decisions.
    """

    coefficient: float = 1.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        value = -self.coefficient * now.logp[occurrences.decision]
        taught = batch.forced[occurrences.decision].to(value.dtype)
        return Terms(value, taught * weights(batch, "token-mean", dtype=value.dtype))

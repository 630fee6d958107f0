"""An objective on some of the trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.stages import Objective
from hocket.types import Evaluation, Terms


@dataclass(frozen=True)
class Among(Objective):
    """`of`, computed on the trajectories whose column `column` is set (`chosen`), or on those where it is not.

    The others have weight 0 for it: they are in none of its sums, means and denominators. Where the experience has no
    such column it is set nowhere. `coefficient` multiplies the term.
    """

    of: Objective = ClippedSurrogate()
    column: str = "tempered"
    chosen: bool = True
    coefficient: float = 1.0

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        told = batch.info.get(self.column, [None] * batch.trajectories)
        here = torch.tensor([bool(one) is self.chosen for one in told], dtype=torch.bool)
        occurrences = batch.occurrences
        weight = torch.where(here[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
        terms = self.of(now, batch.credited(weight=weight))
        return Terms(terms.value, self.coefficient * terms.weight, terms.unit, terms.metrics)

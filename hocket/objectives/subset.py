"""An objective on a subset of the trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.stages import Objective
from hocket.types import Evaluation, Terms


@dataclass(frozen=True)
class Among(Objective):
    """`of`, computed on the trajectories whose column `column` is true (with `chosen`), or on all others (without).

    The remaining trajectories have weight 0, so they enter none of its sums, means and denominators. A missing column
    counts as false everywhere. `coefficient` multiplies the term.
    """

    of: Objective = ClippedSurrogate()
    column: str = "tempered"
    chosen: bool = True
    coefficient: float = 1.0

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        column = batch.info.get(self.column, [None] * batch.trajectories)
        included = torch.tensor([bool(flag) is self.chosen for flag in column], dtype=torch.bool)
        occurrences = batch.occurrences
        weight = torch.where(included[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
        terms = self.of(now, batch.credited(weight=weight))
        return Terms(terms.value, self.coefficient * terms.weight, terms.unit, terms.metrics)

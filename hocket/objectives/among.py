"""An objective on some of the trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.objectives.surrogate import ClippedSurrogate
from hocket.stages import Objective
from hocket.types import Batch, Column, Evaluation, Level, Quantity, Terms


@dataclass(frozen=True)
class Among:
    """`of`, computed on the trajectories whose column `column` is set (`chosen`), or on those where it is not.

    The others have weight 0 for it: they are in none of its sums, means and denominators. Where the experience has no
    such column it is set nowhere. `coefficient` multiplies the term.
    """

    of: Objective = ClippedSurrogate()
    column: str = "tempered"
    chosen: bool = True
    coefficient: float = 1.0

    @property
    def needs(self) -> frozenset[Quantity]:
        return self.of.needs

    @property
    def reads(self) -> frozenset[Column]:
        return self.of.reads

    @property
    def couples(self) -> Level:
        return self.of.couples

    @property
    def idle_without_advantage(self) -> bool:
        return self.of.idle_without_advantage

    @property
    def on_policy_only(self) -> bool:
        """Whether `of` is right for the first update from a batch alone."""
        return bool(getattr(self.of, "on_policy_only", False))

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        told = batch.info.get(self.column, [None] * batch.trajectories)
        here = torch.tensor([bool(one) is self.chosen for one in told], dtype=torch.bool)
        seen = batch.occurrences
        weight = torch.where(here[seen.trajectory], seen.weight, torch.zeros_like(seen.weight))
        terms = self.of(now, batch.credited(weight=weight))
        return Terms(terms.value, self.coefficient * terms.weight, terms.unit, terms.metrics)

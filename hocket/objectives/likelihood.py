"""Supervised learning by maximum likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import HORIZON, Aggregate, check, weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class NegativeLogLikelihood(Objective):
    """Minimises -log pi(a): maximum likelihood of the counted decisions. It reads weights, not advantages.

    If credit gives pairs of trajectories or turns, as with DPO, only the preferred ones count.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        batch = preferred(batch)
        value = -now.logp[batch.occurrences.decision]
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=value.dtype))


def preferred(batch: Batch) -> Batch:
    """The batch with weight 0 for decisions that no pair prefers; without pairs, the batch itself."""
    occurrences = batch.occurrences
    if occurrences.pairs is None:
        return batch
    trajectory, better = occurrences.trajectory, occurrences.pairs[:, 0]
    if occurrences.compared is not None:
        trajectory = trajectory * batch.turns + batch.turn[occurrences.decision]
        better = better * batch.turns + occurrences.compared[:, 0]
    mask = torch.isin(trajectory, better).to(occurrences.weight.dtype)
    return batch.but(occurrences=replace(occurrences, weight=occurrences.weight * mask))

"""Places where the samples of a group differ count more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.credit.divergence import DIVERGENCE
from hocket.credit.refined import Refined
from hocket.segments import segment_extreme
from hocket.types import Batch, Column, GroupBy, Occurrences


def spread_to(values: Tensor, group: Tensor, size: int, largest: float, epsilon: float) -> Tensor:
    """`1 + (largest - 1) (x - min_g x) / (max_g x - min_g x + epsilon)`, `[K]` in [1, largest]."""
    low = segment_extreme(values, group, size, largest=False)[group]
    high = segment_extreme(values, group, size, largest=True)[group]
    return 1 + (largest - 1) * (values - low) / (high - low + epsilon)


@dataclass(frozen=True)
class PlaceWeighted(Refined):
    """Weights in [1, largest] that grow with how much a group's samples differ at a place: TW-GRPO (arXiv 2505.24718).

    The difference is the column `divergence` that the learner annotates (see `hocket.credit.divergence`): the samples'
    whole next-token distributions against their mean. Weights multiply terms and leave denominators as they are.
    `largest` is that of the public code.
    """

    largest: float = 1.4
    epsilon: float = 1e-8

    adds: ClassVar[frozenset[Column]] = frozenset({DIVERGENCE})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.largest < 1:
            raise ValueError(f"largest must be at least 1, not {self.largest}")

    def refine(self, batch: Batch) -> Occurrences:
        divergence = DIVERGENCE.read(batch, "PlaceWeighted")
        seen = batch.occurrences
        used = torch.nonzero(seen.weight != 0).flatten()
        groups = GroupBy("scenario")(batch)
        values = divergence.double()[seen.decision[used]]
        index = groups.index[seen.trajectory[used]]
        weight = seen.weight.double().clone()
        weight[used] = weight[used] * spread_to(values, index, groups.size, self.largest, self.epsilon)
        return replace(seen, weight=weight)

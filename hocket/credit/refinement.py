"""Credit that is computed first and modified afterwards, for example by entropy or by a selection of samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_count, segment_mean
from hocket.credit.group import GroupRelative
from hocket.stages import Credit, Stateful


@dataclass(frozen=True)
class Refined(Credit):
    """The base of these credits: `of` computes credit, then `refine` modifies it.

    Raises:
        ValueError: for an `of` that gives pairs or has memory.
    """

    of: Credit = GroupRelative()

    adds: ClassVar[frozenset[Column]] = frozenset()
    """Columns that `refine` reads, in addition to those of `of`."""

    def __post_init__(self) -> None:
        if self.of.pairs or isinstance(self.of, Stateful):
            raise ValueError(f"of must be a credit of advantages without memory, not {type(self.of).__name__}")

    @property
    def reads(self) -> frozenset[Column]:
        return super().reads | self.adds

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with changed advantages `[E]` float64, or changed weights."""
        return self.refine(batch.but(occurrences=self.of(batch)))

    def refine(self, batch: Batch) -> Occurrences:
        """The modified occurrences of a batch with credit."""
        raise NotImplementedError

    def entropy(self, batch: Batch) -> Tensor:
        """The recorded entropy at each occurrence, nats, a constant, `[E]` float64."""
        if batch.entropy is None:
            raise ConfigurationError(f"{type(self).__name__} reads the entropy of every decision, which is missing")
        return batch.entropy.detach().double()[batch.occurrences.decision]


def mean_by_trajectory(values: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The mean of `values` `[E]` over each trajectory's counted decisions, and whether it has any; both `[N]`."""
    occurrences = batch.occurrences
    used = occurrences.weight != 0
    size = batch.trajectories
    counted = segment_count(occurrences.trajectory[used], size) > 0
    return segment_mean(values[used], occurrences.trajectory[used], size), counted


def only(seen: Occurrences, kept: Tensor) -> Occurrences:
    """The occurrences with weight 0 where `kept` `[E]` is False."""
    return replace(seen, weight=torch.where(kept, seen.weight, torch.zeros_like(seen.weight)))

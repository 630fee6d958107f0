"""Fewer bad samples, so that they do not outnumber the good ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.rewards.members import groups_of
from hocket.signals import returns
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy


@dataclass(frozen=True)
class DropSurplusNegatives(Shaping):
    """Weight 0 for negatives beyond the number of positives, per group: RED-Drop (arXiv 2509.24203).

    A positive has a return of at least its group's mean. As a shaping it runs before credit, which then centres what
    is left. The published code drops negatives at random; here those last in assignment order go, which for samples
    drawn alike is the same in distribution and needs no draw.

    Attributes:
        ratio: how many negatives may stay per positive (rounded down).
    """

    ratio: float = 1.0

    def __post_init__(self) -> None:
        if self.ratio < 0:
            raise ValueError(f"ratio must be at least 0, not {self.ratio}")

    def __call__(self, batch: Batch) -> Batch:
        value = returns(batch).tolist()
        dropped = torch.zeros(batch.trajectories, dtype=torch.bool)
        for members in groups_of(batch, GroupBy("scenario")):
            if not members:
                continue  # Nobody of the group counts.
            mean = sum(value[i] for i in members) / len(members)
            constant = len({value[i] for i in members}) == 1
            bad = [] if constant else [i for i in members if value[i] < mean]
            dropped[bad[int(self.ratio * (len(members) - len(bad))) :]] = True
        seen = batch.occurrences
        return batch.credited(weight=torch.where(dropped[seen.trajectory], 0.0, seen.weight))

"""Weights of groups and their members: factors on group-relative credit that depend on the group.

They are set as `GroupRelative(weigh=(...,))`. A factor may depend on everything in the group, so it can express
difficulty, noise, certainty, and normalisations other than the standard deviation. Where the centred return is 0, the
product is 0.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.segments import segment_extreme, segment_mean
from hocket.stages import Stage


class Compared(NamedTuple):
    """The input of a weight: the M counted members and their groups.

    Attributes:
        value: returns, `[M]` float64. credit: after mean and scale, before any weight, `[M]`.
        group: `[M]` in 0..size-1. trajectory: the trajectory of each member, `[M]` in 0..N-1. batch: the whole batch.
    """

    value: Tensor
    credit: Tensor
    group: Tensor
    size: int
    trajectory: Tensor
    batch: Batch

    def mean(self) -> Tensor:
        """The mean return of each member's group, `[M]`."""
        return segment_mean(self.value, self.group, self.size)[self.group]

    def accuracy(self, success: float | None) -> Tensor:
        """The share of members of each member's group whose return exceeds `success`, `[M]`.

        None takes the midpoint between the lowest and the highest return of the batch.
        """
        halfway = float(self.value.min() + self.value.max()) / 2 if len(self.value) else 0.0
        return segment_mean((self.value > (halfway if success is None else success)).double(), self.group, self.size)[
            self.group
        ]

    def differs(self) -> Tensor:
        """Whether the returns in each member's group differ, `[M]` bool."""
        highest = segment_extreme(self.value, self.group, self.size, largest=True)
        lowest = segment_extreme(self.value, self.group, self.size, largest=False)
        return (highest > lowest)[self.group]


class Weight(Stage):
    """A factor on the credit of each member."""

    room = "credit"

    def __call__(self, seen: Compared) -> Tensor:
        """The factor of each member, `[M]` float64, finite."""
        raise NotImplementedError

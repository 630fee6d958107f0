"""What is compared with what: trajectories, or turns as each trajectory saw them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hocket.segments import segment_count, segment_sum, suffix_sum
from hocket.signals import counted_trajectories, returns, rewards_by_occurrence
from hocket.types import Batch, GroupBy, Level


class Units(NamedTuple):
    """The M members that groups are made of.

    Attributes:
        member: the unit of each occurrence, `[E]`.
        trajectory: whose it is, `[M]`.
        turn: its turn, `[M]`; None when units are whole trajectories.
        value: its undiscounted return (a turn's: the reward from its first decision to the end; a step's: what was
            earned in it), `[M]` float64.
        counted: whether any of its occurrences has a weight, `[M]`; the others enter no statistic and get no credit.
    """

    member: Tensor
    trajectory: Tensor
    turn: Tensor | None
    value: Tensor
    counted: Tensor

    def groups(self, by: GroupBy, batch: Batch) -> tuple[Tensor, int]:
        """The group number of each unit, `[M]`, and how many groups there are."""
        found = by(batch)
        if found.level is Level.TRAJECTORY:
            return found.index[self.trajectory], found.size
        if self.turn is None:
            raise ValueError("whole trajectories cannot be grouped by columns of turns")
        return found.index[self.turn], found.size


def trajectory_units(batch: Batch) -> Units:
    """Every trajectory with its return."""
    everyone = torch.arange(batch.trajectories)
    return Units(batch.occurrences.trajectory, everyone, None, returns(batch), counted_trajectories(batch))


def turn_units(batch: Batch) -> Units:
    """Every visit of a trajectory to a turn, with its reward-to-go. A shared turn is one unit per trajectory."""
    seen = batch.occurrences
    turn = batch.turn[seen.decision]
    starts = torch.ones(len(seen), dtype=torch.bool)
    starts[1:] = (turn[1:] != turn[:-1]) | (seen.trajectory[1:] != seen.trajectory[:-1])
    member = torch.cumsum(starts, 0) - 1
    to_go = suffix_sum(rewards_by_occurrence(batch), seen.trajectory, batch.trajectories)
    counted = segment_count(member[seen.weight != 0], int(starts.sum())) > 0
    return Units(member, seen.trajectory[starts], turn[starts], to_go[starts], counted)


def step_units(batch: Batch) -> Units:
    """Every segment of every visit of a trajectory to a turn, with the reward earned in it."""
    seen = batch.occurrences
    turn, segment = batch.turn[seen.decision], batch.segment[seen.decision]
    starts = torch.ones(len(seen), dtype=torch.bool)
    starts[1:] = (turn[1:] != turn[:-1]) | (segment[1:] != segment[:-1]) | (seen.trajectory[1:] != seen.trajectory[:-1])
    member, size = torch.cumsum(starts, 0) - 1, int(starts.sum())
    earned = segment_sum(rewards_by_occurrence(batch), member, size)
    counted = segment_count(member[seen.weight != 0], size) > 0
    return Units(member, seen.trajectory[starts], turn[starts], earned, counted)

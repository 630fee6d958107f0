"""The combined reward of a batch, read at the grain a stage wants."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.segments import segment_sum
from hocket.types import Batch, Level

REWARD = {Level.TRAJECTORY: "reward", Level.TURN: "reward/turn", Level.DECISION: "reward/decision"}
"""Where the combined reward stands, by level. A return is the sum over all three."""


def rewards_by_occurrence(batch: Batch) -> Tensor:
    """The combined reward where it was earned, `[E]` float64.

    A decision's at the decision, a turn's at the turn's last decision, a trajectory's at its last decision.
    """
    seen = batch.occurrences
    rewards = torch.zeros(len(seen), dtype=torch.float64)
    if REWARD[Level.DECISION] in batch.scores:
        rewards = rewards + batch.scores[REWARD[Level.DECISION]].values
    if REWARD[Level.TURN] in batch.scores:
        turn = batch.turn[seen.decision]
        ends = torch.ones(len(seen), dtype=torch.bool)
        ends[:-1] = (turn[1:] != turn[:-1]) | (seen.trajectory[1:] != seen.trajectory[:-1])
        rewards = rewards + torch.where(ends, batch.scores[REWARD[Level.TURN]].values[turn], 0.0)
    if REWARD[Level.TRAJECTORY] in batch.scores:
        last = batch.last()
        owned = last >= 0
        rewards = rewards.index_add(0, last[owned], batch.scores[REWARD[Level.TRAJECTORY]].values[owned])
    return rewards


def returns(batch: Batch) -> Tensor:
    """The undiscounted return of each trajectory, `[N]` float64."""
    total = segment_sum(rewards_by_occurrence(batch), batch.occurrences.trajectory, batch.trajectories)
    if REWARD[Level.TRAJECTORY] in batch.scores:
        # A trajectory without decisions still has its own reward.
        total = torch.where(batch.last() < 0, batch.scores[REWARD[Level.TRAJECTORY]].values, total)
    return total

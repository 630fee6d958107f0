"""Shared functions of group shapings: members of groups, and rewards of trajectories."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, LevelScores
from hocket.core.signals import REWARD, counted_trajectories, returns

SCENARIO = GroupBy("scenario")


def groups_of(batch: Batch, by: GroupBy) -> list[list[int]]:
    """The counted trajectories of each group, in assignment order (so that nothing depends on that of the batch)."""
    groups = by(batch)
    index, order, used = groups.index.tolist(), batch.order.tolist(), counted_trajectories(batch).tolist()
    members: list[list[int]] = [[] for _ in range(groups.size)]
    for row in sorted((row for row in range(batch.trajectories) if used[row]), key=lambda row: order[row]):
        members[index[row]].append(row)
    return members


def with_return(batch: Batch, value: Tensor) -> Batch:
    """The batch with returns `value` `[N]`. Rewards of turns and decisions stay where they are; the rest comes last."""
    name, value = REWARD[Level.TRAJECTORY], value.to(torch.float64)
    if any(REWARD[level] in batch.scores for level in (Level.TURN, Level.DECISION)):
        known = batch.scores[name].values if name in batch.scores else torch.zeros_like(value)
        value = known + (value - returns(batch))
    return batch.but(scores={**batch.scores, name: LevelScores(Level.TRAJECTORY, value)})

"""What words cost."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.rewards.members import with_return
from hocket.segments import segment_extreme
from hocket.signals import counted_trajectories, returns
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy


@dataclass(frozen=True)
class MessageCost(Shaping):
    """Takes `weight * tokens / (most tokens among the scenario's samples)` from the return: Optima (arXiv 2410.08115).

    Tokens are the decisions of all turns, whoever said them. Trajectories that do not count set no maximum.
    """

    weight: float = 0.6

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"weight must be at least 0, not {self.weight}")

    def __call__(self, batch: Batch) -> Batch:
        groups, among = GroupBy("scenario")(batch), counted_trajectories(batch)
        length = batch.lengths().double()
        most = segment_extreme(length[among], groups.index[among], groups.size, largest=True)[groups.index]
        cost = torch.where(among, length / most.clamp(min=1.0), 0.0)
        return with_return(batch, returns(batch) - self.weight * cost)

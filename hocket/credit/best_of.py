"""Only the best is imitated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from hocket.credit.pairs import members_by_group
from hocket.signals import returns
from hocket.stages import Credit
from hocket.types import Batch, GroupBy, Level, Occurrences


@dataclass(frozen=True)
class BestAbove(Credit):
    """Advantage 1 for the best trajectory of each group if its return is above `least`; all others get weight 0.

    What is imitated in Optima's iSFT (arXiv 2410.08115): generate, rank, select. Among equals the first in assignment
    order is taken; of the best ones of all groups the `share` with the highest return is kept, rounded up.
    """

    by: GroupBy = GroupBy("scenario")
    least: float = 0.5
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are ranked: by may not name a column of turns")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], not {self.share}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64 and weights."""
        seen, value = batch.occurrences, returns(batch).tolist()
        best = [max(members, key=lambda one: value[one]) for members in members_by_group(batch, self.by)]
        order = batch.order.tolist()
        best = sorted((one for one in best if value[one] > self.least), key=lambda one: (-value[one], order[one]))
        kept = torch.zeros(batch.trajectories, dtype=torch.bool)
        kept[best[: math.ceil(self.share * len(best) - 1e-9)]] = True
        here = kept[seen.trajectory] & (seen.weight != 0)
        weight = torch.where(here, seen.weight, torch.zeros_like(seen.weight))
        return replace(seen, advantage=here.double(), weight=weight)

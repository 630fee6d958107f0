"""Lengths compared within a group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.rewards.outcomes import RIGHT, right
from hocket.rewards.shaping import added
from hocket.segments import segment_extreme
from hocket.signals import counted_trajectories
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy, Level


def spread_length(length: Tensor, solved: Tensor, group: Tensor, size: int) -> Tensor:
    """`c = 1/2 - (l - min_g l)/(max_g l - min_g l)` for right answers, `min(0, c)` for wrong ones, `[N]` float64.

    All 0 in a group of equal lengths.
    """
    own = length.double()
    shortest = segment_extreme(own, group, size, largest=False)[group]
    width = segment_extreme(own, group, size, largest=True)[group] - shortest
    score = 0.5 - (own - shortest) / width.clamp(min=1.0)
    score = torch.where(solved, score, score.clamp(max=0.0))
    return torch.where(width > 0, score, torch.zeros_like(score))


@dataclass(frozen=True)
class SpreadLength(Shaping):
    """Adds `weight` times a score of the length's place within its group: Kimi k1.5 (arXiv 2501.12599, section 2.3.3).

    The shortest right answer gets 1/2 and the longest -1/2; wrong answers are never rewarded for being short. Answers
    are compared with all of their group, right or wrong.

    Attributes:
        weight: of the score; the report gives none, 0.5 keeps every right answer above every wrong one.
        warmup: share of the run before which nothing is added, since it slows training at first.
        least: an answer is right when its return before is at least this.
    """

    weight: float = 0.5
    warmup: float = 0.25
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.weight < 0 or not 0 <= self.warmup <= 1:
            raise ValueError(f"weight must be at least 0 and warmup in [0, 1], not {self.weight} and {self.warmup}")

    def __call__(self, batch: Batch) -> Batch:
        if batch.progress < self.warmup:
            return batch
        used, groups = counted_trajectories(batch), GroupBy("scenario")(batch)
        score = torch.zeros(batch.trajectories, dtype=torch.float64)
        solved, length = right(batch, self.least), batch.lengths()
        score[used] = spread_length(length[used], solved[used], groups.index[used], groups.size)
        return added(batch, Level.TRAJECTORY, self.weight * score)

"""From several named scores to the reward that credit reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from hocket.signals import REWARD
from hocket.types import Batch, Level, LevelScores


@dataclass(frozen=True)
class WeightedSum:
    """reward = sum_k w_k r_k at each level, over the scores that have an opinion (NaN counts as absent)."""

    def __call__(self, batch: Batch, weights: Mapping[str, float]) -> Batch:
        sizes = {Level.TRAJECTORY: batch.trajectories, Level.TURN: batch.turns, Level.DECISION: len(batch.occurrences)}
        scores = dict(batch.scores)
        for level, name in REWARD.items():
            parts = [
                weights.get(key, 1.0) * torch.nan_to_num(score.values)
                for key, score in batch.scores.items()
                if score.level is level
            ]
            if parts or level is Level.TRAJECTORY:
                total = torch.stack(parts).sum(0) if parts else torch.zeros(sizes[level], dtype=torch.float64)
                scores[name] = LevelScores(level, total)
        return batch.but(scores=scores)

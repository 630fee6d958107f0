"""From several named scores to the reward that credit reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from hocket.signals import REWARD
from hocket.types import Batch, Level, LevelScores


@dataclass(frozen=True)
class WeightedSum:
    """reward = sum_k w_k r_k at each level, over the scores that have an opinion (NaN counts as absent).

    Without any weights, a score named `reward` decides alone.
    """

    def __call__(self, batch: Batch, weights: Mapping[str, float]) -> Batch:
        # Recorded batches come without weights; there a score called `reward` is the combined one already.
        settled = not weights and REWARD[Level.TRAJECTORY] in batch.scores
        given = {n: s for n, s in batch.scores.items() if not settled or n in REWARD.values()}
        scores = dict(batch.scores)
        scores[REWARD[Level.TRAJECTORY]] = LevelScores(
            Level.TRAJECTORY, torch.zeros(batch.trajectories, dtype=torch.float64)
        )
        for level, name in REWARD.items():
            parts = [weights.get(n, 1.0) * torch.nan_to_num(s.values) for n, s in given.items() if s.level is level]
            if parts:
                scores[name] = LevelScores(level, torch.stack(parts).sum(0))
        return batch.but(scores=scores)

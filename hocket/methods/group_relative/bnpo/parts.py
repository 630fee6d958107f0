"""Advantages of several rewards apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level, LevelScores, Occurrences
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.signals import REWARD
from hocket.credit.group import GroupRelative
from hocket.stages import Credit


@dataclass(frozen=True)
class EachScore(Credit):
    """The mean over named scores of the credit that each alone would give: `A = 1/K sum_k credit(r_k)`.

    So every reward is normalised by its own statistics before they are added: advantage decomposition (BNPO,
    arXiv 2506.02864). Without `scores` it is `credit` of the combined reward. Scores are taken as they were given,
    before weights and shaping; no opinion counts 0.

    Raises:
        ConfigurationError: on a call, for a score that the batch lacks or that is not of whole trajectories.
    """

    credit: Credit = GroupRelative()
    scores: tuple[str, ...] = ()

    gives_targets: ClassVar[bool] = False  # Of several credits, none's chain of values would be the target.

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        if not self.scores:
            return self.credit(batch)
        found = [self.credit(self._alone(batch, name)).advantage for name in self.scores]
        return replace(batch.occurrences, advantage=torch.stack(found).mean(0))

    def _alone(self, batch: Batch, name: str) -> Batch:
        """The batch with one score as its only reward."""
        score = batch.scores.get(name)
        if score is None or score.level is not Level.TRAJECTORY:
            whole = [one for one, given in batch.scores.items() if given.level is Level.TRAJECTORY]
            raise ConfigurationError(f"credit.scores: no score {name!r} of whole trajectories{nearest(name, whole)}")
        reward = LevelScores(Level.TRAJECTORY, torch.nan_to_num(score.values))
        return batch.but(scores={REWARD[Level.TRAJECTORY]: reward})

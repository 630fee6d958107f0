"""Unlikeliness reward: GRPO that pays right answers more the less likely they were (He et al., arXiv:2506.02355).

`UnlikelinessReward` ranks each group by mean log-prob under the sampling policy and lowers the rewards of likely
samples before they are normalised; rewards of 0 stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, LevelScores
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_mean
from hocket.core.signals import REWARD
from hocket.methods.base.grpo import GRPO
from hocket.stages import Shaping


def likelihood_ranks(logp: Tensor, group: Tensor, size: int) -> Tensor:
    """How many members of its group each of M has below it in `logp`, `[M]` float64: 0 for the least likely.

    Equal ones share the mean of their ranks.
    """
    ranked = torch.argsort(logp, stable=True)
    ranked = ranked[torch.argsort(group[ranked], stable=True)]
    count = segment_count(group, size)
    place = torch.arange(len(logp)) - (torch.cumsum(count, 0) - count)[group[ranked]]
    fresh = torch.ones(len(logp), dtype=torch.bool)
    fresh[1:] = (logp[ranked][1:] != logp[ranked][:-1]) | (group[ranked][1:] != group[ranked][:-1])
    tied = torch.cumsum(fresh, 0) - 1
    ranks = torch.zeros(len(logp), dtype=torch.float64)
    ranks[ranked] = segment_mean(place.double(), tied, int(fresh.sum()))[tied]
    return ranks


@dataclass(frozen=True)
class UnlikelinessReward(Shaping):
    """`r_i <- r_i (1 - beta rank_i / G)`, rank 0 for the least likely of the G samples (arXiv 2506.02355).

    Likelihood is the mean behaviour log-prob of a sample's counted decisions. Only rewards above 0 of whole
    trajectories change, so wrong samples keep their 0 (and a penalty is not softened). Equally likely samples share the
    mean of their ranks, so nothing depends on their order. Samples that do not count have no rank.
    """

    beta: float = 0.25

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise ValueError(f"beta must lie in [0, 1], not {self.beta}")

    def __call__(self, batch: Batch) -> Batch:
        name = REWARD[Level.TRAJECTORY]
        if name not in batch.scores:
            return batch
        seen, size = batch.occurrences, batch.trajectories
        used = seen.weight != 0
        logp = batch.logp[Column.BEHAVIOUR.name].values.detach().double()[seen.decision[used]]
        counted = torch.nonzero(segment_count(seen.trajectory[used], size) > 0).flatten()
        mean = segment_mean(logp, seen.trajectory[used], size)[counted]
        groups = GroupBy("scenario")(batch)
        index = groups.index[counted]
        factor = torch.ones(size, dtype=torch.float64)
        among = segment_count(index, groups.size)[index]
        factor[counted] = 1 - self.beta * likelihood_ranks(mean, index, groups.size) / among
        reward = batch.scores[name].values
        changed = torch.where(reward > 0, reward * factor, reward)
        return batch.but(scores={**batch.scores, name: LevelScores(Level.TRAJECTORY, changed)})


UNLIKELINESS = GRPO.but(
    name="unlikeliness-reward",
    title="Rewarding the unlikely",
    source="He et al., Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening, arXiv:2506.02355",
    catalogue_ids=("unlikeliness-reward",),
    axes=("reward", "credit"),
    formula="r_i <- r_i (1 - beta rank_i / G), rank 0 the least likely sample;  then GRPO",
    conventions={
        **GRPO.conventions,
        "likelihood": "mean behaviour log-prob of a sample's decisions; equal ones share the mean of their ranks",
        "beta": "shaping.0.beta = 0.25",
        "rewards of 0 and below": "unchanged",
        "updates per batch": "2 epochs of 2 mini-batches, as in the released script (512 samples by 256): more of them "
        "also raise rare samples; its KL term, 0.1, is left out",
    },
    shaping=(UnlikelinessReward(beta=0.25),),
    **{"update.epochs": 2, "update.minibatches": 2},
)

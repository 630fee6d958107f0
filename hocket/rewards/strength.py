"""The strength of recorded preferences: the difference of rewards between chosen and rejected answers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.rewards.combine import WeightedSum
from hocket.rewards.members import SCENARIO, groups_of

PREFERENCE = "preference"
"""The score of recorded pairs: 1 for the chosen member, 0 for the rejected one."""

REWARDS_ALONE = WeightedSum(weights={PREFERENCE: 0.0})
"""Returns are what rewards say; which member was chosen is left out of them."""


class Strengths(NamedTuple):
    """Recorded pairs: (chosen, rejected) trajectories `[P, 2]`, and mu, their difference of returns `[P]` float64."""

    pairs: Tensor
    mu: Tensor


def strengths_of(batch: Batch, reader: str) -> Strengths:
    """The pairs of a batch that count, one per scenario, and their strengths by the returns as they are.

    Raises:
        ConfigurationError: naming `reader`, for a batch without recorded pairs.
    """
    score = batch.scores.get(PREFERENCE)
    if score is None or score.level is not Level.TRAJECTORY:
        raise ConfigurationError(
            f"{reader} reads recorded pairs, and these trajectories have no score {PREFERENCE!r}; use a rollout of "
            "pairs, such as ScoredPreferences"
        )
    values, indices = score.values.tolist(), list[tuple[int, int]]()
    for members in filter(None, groups_of(batch, SCENARIO)):
        best, worst = max(members, key=lambda i: values[i]), min(members, key=lambda i: values[i])
        if values[best] > values[worst]:
            indices.append((best, worst))
    pairs = torch.tensor(indices, dtype=torch.long).reshape(-1, 2)
    value = returns(batch)
    return Strengths(pairs, value[pairs[:, 0]] - value[pairs[:, 1]])

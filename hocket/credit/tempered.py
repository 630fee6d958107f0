"""Credit where some samples were drawn at another temperature."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.method_columns import TEMPERED
from hocket.credit.refined import Refined
from hocket.signals import counted_trajectories, returns
from hocket.types import Batch, Occurrences


@dataclass(frozen=True)
class RewardWhereTempered(Refined):
    """`A_i = R_i` for samples whose column `tempered` is set, the credit of `of` for the others: AEPO (2510.08141).

    The tempered ones enter no statistic of `of`, so that its groups are exactly those of the policy's own samples.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        apart = torch.tensor([bool(one) for one in TEMPERED.rows(batch)])
        here = apart[seen.trajectory]
        given = self.of(batch.credited(weight=torch.where(here, torch.zeros_like(seen.weight), seen.weight)))
        reward = torch.where(counted_trajectories(batch), returns(batch), 0.0)[seen.trajectory]
        weight = torch.where(here, seen.weight, given.weight)
        return replace(given, advantage=torch.where(here, reward, given.advantage.double()), weight=weight)

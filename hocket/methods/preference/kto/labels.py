"""Which answers are desirable."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import MISMATCHED, PAIR_WEIGHT
from hocket.core.signals import RIGHT, returns
from hocket.stages import Credit


@dataclass(frozen=True)
class Desirability(Credit):
    """Advantage 1 for trajectories whose return is at least `least`, -1 for others, times the weight they carry.

    Answers that are another prompt's (`MISMATCHED`) get weight 0.
    """

    least: float = RIGHT

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences
        sizes = [1.0 if one is None else float(one) for one in PAIR_WEIGHT.rows(batch)]
        verdict = torch.where(returns(batch) >= self.least, 1.0, -1.0).double() * torch.tensor(sizes).double()
        other = torch.tensor([bool(one) for one in MISMATCHED.rows(batch)], dtype=torch.bool)[seen.trajectory]
        weight = torch.where(other, torch.zeros_like(seen.weight), seen.weight)
        return replace(seen, weight=weight, advantage=torch.where(weight != 0, verdict[seen.trajectory], 0.0))

"""Credit whitened over decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.credit.formulas import centred
from hocket.credit.refinement import Refined
from hocket.credit.reinforce import in_place


@dataclass(frozen=True)
class WhitenedTokens(Refined):
    """`(A_t - mean A) / sqrt(var A + epsilon)` over the counted decisions of the batch, each counted once.

    So long answers weigh more in both than in statistics over trajectories. With `of = GroupRelative(scale=None)` it is
    REINFORCE++-baseline as computed by its authors' code, verl and NeMo-RL (arXiv 2501.03262).

    Attributes:
        ddof: 1 divides the sum of squares by one less than the number of decisions (verl), 0 by their number (NeMo-RL).
        epsilon: added to the variance, verl's 1e-8; NeMo-RL has none.
    """

    ddof: Literal[0, 1] = 1
    epsilon: float = 1e-8

    def refine(self, batch: Batch) -> Occurrences:
        occurrences = batch.occurrences
        used = occurrences.weight != 0
        count = int(used.sum())
        group = torch.zeros(count, dtype=torch.long)
        middle = centred(occurrences.advantage[used].double(), group, 1)
        variance = float(middle.square().sum()) / max(count - self.ddof, 1) + self.epsilon
        return replace(occurrences, advantage=in_place(middle / variance**0.5 if variance > 0 else middle, used))

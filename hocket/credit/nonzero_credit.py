"""A correction that excludes decisions without advantage."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.stages import Correction


@dataclass(frozen=True)
class CreditedOnly(Correction):
    """Weight 0 where the advantage is 0, which excludes these decisions from every sum, mean and denominator.

    So constant groups do not dilute a mean, and regularisers do not act on them. prime-rl's `filter_zero_advantages`
    and SPIRAL's `filter_zero_adv`, both on by default there, do the same.
    """

    def __call__(self, batch: Batch) -> Batch:
        """The batch with weights `[E]`."""
        occurrences = batch.occurrences
        return batch.credited(
            weight=torch.where(occurrences.advantage == 0, torch.zeros_like(occurrences.weight), occurrences.weight)
        )

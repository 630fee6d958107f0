"""What has no credit is not counted."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.stages import Correction


@dataclass(frozen=True)
class CreditedOnly(Correction):
    """Weight 0 where the advantage is 0: what has no credit leaves every sum, mean and denominator.

    So constant groups no longer dilute a mean, and regularisers do not act on them. prime-rl's
    `filter_zero_advantages` and SPIRAL's `filter_zero_adv`, both on by default there, are this form.
    """

    def __call__(self, batch: Batch) -> Batch:
        """The batch with weights `[E]`."""
        occurrences = batch.occurrences
        return batch.credited(
            weight=torch.where(occurrences.advantage == 0, torch.zeros_like(occurrences.weight), occurrences.weight)
        )

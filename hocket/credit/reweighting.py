"""Edits of advantages after credit: off-policy group-relative REINFORCE and its relatives. Set as `correction`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.stages import Correction
from hocket.types import Batch

MAXIMUM = 50.0
"""Exponents are cut to +-50, so that no weight overflows."""


@dataclass(frozen=True)
class LoweredBaseline(Correction):
    """`A += shift`: the baseline lowered by `shift` (AsymRE, Arnal et al. 2025, arXiv 2506.20520).

    It adds shift * sum_i log pi(y_i) to what is maximised, also in groups whose rewards are all equal.
    """

    shift: float = 0.1

    def __call__(self, batch: Batch) -> Batch:
        """The batch with advantages `[E]`; those of weight 0 stay."""
        seen = batch.occurrences
        return batch.credited(advantage=torch.where(seen.weight != 0, seen.advantage + self.shift, seen.advantage))


@dataclass(frozen=True)
class ExponentialWeight(Correction):
    """`A *= exp(A / temperature)`: good samples count more, bad ones less (RED-Weight, arXiv 2509.24203).

    The exponent is cut to +-50. Not normalised, as in the released code.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with advantages `[E]`."""
        advantage = batch.occurrences.advantage
        factor = (advantage / self.temperature).clamp(-MAXIMUM, MAXIMUM).exp()
        return batch.credited(advantage=advantage * factor)

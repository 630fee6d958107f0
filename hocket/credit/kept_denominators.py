"""Corrections that keep denominators unchanged, and importance weights bounded on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from hocket.core.batch import Batch
from hocket.credit.corrections import MaskedImportance, TruncatedImportance, importance_ratios
from hocket.stages import Correction, Stateful


@dataclass(frozen=True)
class Counted(Correction):
    """`of`, but masked decisions stay in the denominators: they get advantage 0 instead of weight 0.

    A correction that masks by weight 0 removes decisions from every sum, mean and denominator, so that the others
    weigh more. OpenRLHF, slime, NeMo-RL and AReaL multiply the loss by the mask and divide by all decisions, as the
    report on IcePop does (arXiv 2510.18855). This class follows them; regularisers act on masked decisions, as there.
    """

    of: Correction = field(default_factory=MaskedImportance)

    def __post_init__(self) -> None:
        if isinstance(self.of, Stateful):
            raise ValueError("of must be a correction without memory")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with weights and advantages `[E]`."""
        occurrences, after = batch.occurrences, self.of(batch)
        corrected = after.occurrences
        masked = (corrected.weight == 0) & (occurrences.weight != 0)
        weight = torch.where(masked, occurrences.weight.to(corrected.weight.dtype), corrected.weight)
        return after.credited(weight=weight, advantage=torch.where(masked, 0.0, corrected.advantage))


@dataclass(frozen=True)
class BoundedImportance(TruncatedImportance):
    """`weight *= clip(pi_proximal / pi_behaviour, floor, cap)`: truncated importance sampling with a lower bound.

    slime's `tis_clip_low` and NeMo-RL's `truncated_importance_sampling_ratio_min`; with `floor` 0, their default, it is
    `TruncatedImportance`.
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.floor <= self.cap:
            raise ValueError(f"floor must lie between 0 and cap, not {self.floor}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with weights `[E]` float64."""
        ratio = importance_ratios(batch, self.level).clamp(self.floor, self.cap)
        return batch.credited(weight=batch.occurrences.weight.double() * ratio)

"""Importance weights for decisions of another policy: an older one, or a sampler with other numerics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_sum
from hocket.stages import Correction

SATURATION = 50.0
"""Log-ratios are cut to [-50, 50] nats before `exp`, so that no ratio or product of ratios overflows."""

Grain = Literal["decision", "sequence"]


def saturated_exp(log_ratio: Tensor) -> Tensor:
    """`exp(x)` with x cut to `[-SATURATION, SATURATION]`."""
    return log_ratio.clamp(-SATURATION, SATURATION).exp()


def importance_ratios(batch: Batch, level: Grain) -> Tensor:
    """`pi_proximal / pi_behaviour` of each occurrence, `[E]` float64.

    At level `sequence` it is the ratio of a trajectory's probabilities: the product over its occurrences of non-zero
    weight, for all of them. Decisions without one of the log-probs (imported text) count as on-policy, with ratio 1.

    Raises:
        ConfigurationError: when the batch lacks one of the two columns.
    """
    occurrences = batch.occurrences
    for column in (Column.PROXIMAL, Column.BEHAVIOUR):
        if column.name not in batch.logp:
            raise ConfigurationError(f"an importance correction reads log-probs {column.name!r}, which are missing")
    proximal, behaviour = batch.logp[Column.PROXIMAL.name], batch.logp[Column.BEHAVIOUR.name]
    known = (proximal.present & behaviour.present)[occurrences.decision]
    difference = (proximal.values.detach().double() - behaviour.values.detach().double())[occurrences.decision]
    log_ratio = torch.where(known, difference, 0.0)
    if level == "sequence":
        counted = torch.where(occurrences.weight != 0, log_ratio, 0.0)
        log_ratio = segment_sum(counted, occurrences.trajectory, batch.trajectories)[occurrences.trajectory]
    return saturated_exp(log_ratio)


def check_grain(level: str) -> None:
    """Raises `ValueError` for an unknown level."""
    if level not in ("decision", "sequence"):
        raise ValueError(f"level must be 'decision' or 'sequence', not {level!r}")


@dataclass(frozen=True)
class TruncatedImportance(Correction):
    """`weight *= min(pi_proximal / pi_behaviour, cap)`: truncated importance sampling.

    Ionides 2008; between sampler and learner Yao et al. 2025 ("Your efficient RL framework secretly brings you
    off-policy RL training"). The ratio is of single decisions, or of whole trajectories (`sequence`).
    """

    cap: float = 2.0
    level: Grain = "decision"

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR, Column.PROXIMAL})

    def __post_init__(self) -> None:
        check_grain(self.level)
        if self.cap <= 0:
            raise ValueError(f"cap must be positive, not {self.cap}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with weights `[E]` float64."""
        ratio = importance_ratios(batch, self.level).clamp(max=self.cap)
        return batch.credited(weight=batch.occurrences.weight.double() * ratio)


@dataclass(frozen=True)
class MaskedImportance(Correction):
    """Weight 0 where `pi_proximal / pi_behaviour` lies outside `[low, high]`.

    With `reweight` the other weights are multiplied by their ratio. Masked decisions are excluded from denominators as
    well, so the others weigh more; `Counted` includes them, as in IcePop's report (Ling Team 2025, arXiv 2510.18855)
    and public code.
    """

    low: float = 0.5
    high: float = 5.0
    level: Grain = "decision"
    reweight: bool = False

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR, Column.PROXIMAL})

    def __post_init__(self) -> None:
        check_grain(self.level)
        if not 0 <= self.low < self.high:
            raise ValueError(f"low and high must satisfy 0 <= low < high, not {self.low} and {self.high}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with weights `[E]` float64."""
        ratio = importance_ratios(batch, self.level)
        mask = (ratio >= self.low) & (ratio <= self.high)
        factor = torch.where(mask, ratio if self.reweight else torch.ones_like(ratio), 0.0)
        return batch.credited(weight=batch.occurrences.weight.double() * factor)

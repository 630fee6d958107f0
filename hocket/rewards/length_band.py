"""A generalised penalty on length."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hocket.rewards.shaping import added
from hocket.stages import Shaping
from hocket.types import Batch, Level


def band_penalty(lengths: Tensor, shortest: float, longest: float, power: float) -> Tensor:
    """`max(0, (L - longest)/longest, (shortest - L)/shortest)^power`, at most 1, `[N]` float64."""
    beyond = (lengths.double() - longest) / longest
    if shortest > 0:
        beyond = beyond.maximum((shortest - lengths.double()) / shortest)
    return beyond.clamp(0.0, 1.0) ** power


@dataclass(frozen=True)
class LengthBand(Shaping):
    """`reward -= penalty * (relative distance to [shortest, longest])^power`, nothing within the band.

    A length penalty in a general form, for which Hybrid and Multi-Aspect Reward Optimisation (arXiv 2510.05283) gives
    no formula; this one is chosen here. `power` 1 is linear, less punishes small excess, more tolerates it.

    Attributes:
        shortest, longest: decisions of a trajectory, all turns together. penalty: due at twice the longest.
    """

    longest: float = 128.0
    shortest: float = 0.0
    penalty: float = 0.5
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest or self.longest <= 0:
            raise ValueError(f"0 <= shortest <= longest must hold, not {self.shortest} and {self.longest}")
        if self.power <= 0:
            raise ValueError(f"power must be positive, not {self.power}")

    def __call__(self, batch: Batch) -> Batch:
        cost = self.penalty * band_penalty(batch.lengths(), self.shortest, self.longest, self.power)
        return added(batch, Level.TRAJECTORY, -cost)

"""Rewards bent by a curve before they are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.rewards.members import with_return
from hocket.signals import returns
from hocket.stages import Shaping
from hocket.types import Batch


def asymmetric_curve(reward: Tensor, threshold: float, above: float, below: float) -> Tensor:
    """`t + a log(1 + r - t)` where r > t, else `t - (exp(b (t - r)) - 1) / (exp(b) - 1)`; same shape.

    Continuous and increasing, t at t. Its slope is `a / (1 + r - t)` above, so at most a, and
    `b exp(b (t - r)) / (exp(b) - 1)` below, so largest for the worst rewards.
    """
    high = threshold + above * torch.log1p((reward - threshold).clamp(min=0.0))
    low = threshold - torch.expm1(below * (threshold - reward).clamp(min=0.0)) / math.expm1(below)
    return torch.where(reward > threshold, high, low)


@dataclass(frozen=True)
class AsymmetricCurve(Shaping):
    """Compresses returns above a threshold and spreads those below: TempSamp-R1 (arXiv 2509.18056).

    The return becomes `asymmetric_curve` of it. So a perfect expert in a group no longer draws the
    mean above every sample of the policy. The constants are chosen here: the paper's could not be confirmed.

    Attributes:
        threshold: t. above: a > 0. below: b > 0.
    """

    threshold: float = 0.8
    above: float = 0.01
    below: float = 1.0

    def __post_init__(self) -> None:
        if self.above <= 0 or not 0 < self.below <= 50:
            raise ValueError("above must be positive and below must lie in (0, 50]")

    def __call__(self, batch: Batch) -> Batch:
        return with_return(batch, asymmetric_curve(returns(batch), self.threshold, self.above, self.below))

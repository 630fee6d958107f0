"""What a centred return may be divided by instead of the group's standard deviation.

Weights (see `hocket.credit.weights`) for `GroupRelative(scale=None, weigh=(...,))`: the whole normalisation is theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.credit.weights import Compared, Weight
from hocket.segments import segment_mean, segment_std


def mixed_divisor(mean: Tensor, deviation: Tensor, certainty: Tensor, epsilon: float) -> Tensor:
    """`(1 - lam)/(sigma + eps) + lam/(mu + eps)`, `lam = 1 - 4 p (1 - p)`: MAPO's factor on `R - mu`; same shape.

    The second part is 0 where the mean is not positive (a relative deviation from 0 has no meaning), the first where
    sigma and eps are both 0.
    """
    lam = 1 - 4 * certainty * (1 - certainty)
    spread = deviation + epsilon
    standard = torch.where(spread > 0, 1 / spread, 0.0)
    relative = torch.where(mean > 0, 1 / (mean + epsilon), 0.0)
    return (1 - lam) * standard + lam * relative


@dataclass(frozen=True)
class MixedDeviation(Weight):
    """Mixes the z-score with the relative deviation by how certain a group is: MAPO (arXiv 2509.18849).

    Certainty p is the share of members with the full reward. Even groups (p = 1/2) get GRPO's z-score; near 0 and 1
    the deviation relative to the mean, which pushes a rare success harder and a rare failure softer. For rewards in
    [0, 1]; see `mixed_divisor`.

    Attributes:
        ddof: 1 divides the sum of squares by G - 1 (the release), 0 by G. epsilon: added to deviation and mean.
        success: a member has the full reward when its return exceeds this (the release counts rewards equal to 1).
    """

    ddof: int = 1
    epsilon: float = 1e-6
    success: float | None = 0.5

    def __call__(self, seen: Compared) -> Tensor:
        deviation = segment_std(seen.value, seen.group, seen.size, ddof=self.ddof)[seen.group]
        return mixed_divisor(seen.mean(), deviation, seen.accuracy(self.success), self.epsilon)


def beta_moments(rates: Tensor) -> tuple[float, float]:
    """`k mean` and `k (1 - mean)`, `k = mean (1 - mean) / var - 1`: the Beta(a, b) that fits rates `[G]` by moments.

    var has G - 1 in its denominator. Fewer than two rates, and equal ones, say nothing of a spread: (0, 0).
    """
    if len(rates) < 2 or float(rates.max()) == float(rates.min()):
        return 0.0, 0.0
    mean = float(rates.mean())
    k = mean * (1 - mean) / float(rates.var()) - 1
    return k * mean, k * (1 - mean)


def beta_density(rate: Tensor, alpha: float, beta: float) -> Tensor:
    """The density of Beta(alpha, beta) at rates in [0, 1], same shape."""
    log_norm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    log = torch.xlogy(torch.tensor(alpha - 1, dtype=rate.dtype), rate)
    log = log + torch.xlogy(torch.tensor(beta - 1, dtype=rate.dtype), 1 - rate)
    return (log + log_norm).exp()


@dataclass(frozen=True)
class BetaDensity(Weight):
    """`1 / Beta_pdf(p; alpha, beta)`, p the mean reward of the group: BNPO (arXiv 2506.02864).

    alpha = max(1, 1 + a/3) and beta = max(1, 1 + b/3), where Beta(a, b) fits the batch's p by moments (see
    `beta_moments`). alpha = beta = 1 leaves the centred reward as it is; 3/2 is proportional to 1/sqrt(p(1-p)), GRPO.

    Attributes:
        alpha, beta: fixed instead of fitted, at least 1; both or neither.
        least, most: rewards are mapped from [least, most] to [0, 1] first; beyond they are refused by clamping p.
        cap: bounds the factor, as the release does (1e6).
    """

    alpha: float | None = None
    beta: float | None = None
    least: float = 0.0
    most: float = 1.0
    cap: float = 1e6

    def __post_init__(self) -> None:
        if (self.alpha is None) != (self.beta is None):
            raise ValueError("alpha and beta are fixed together or fitted together; set both or neither")
        if self.most <= self.least:
            raise ValueError(f"most must exceed least = {self.least}, not {self.most}")

    def parameters(self, rates: Tensor) -> tuple[float, float]:
        """alpha and beta for the groups' mean rewards `[G]` in [0, 1]."""
        if self.alpha is not None and self.beta is not None:
            return self.alpha, self.beta
        a, b = beta_moments(rates)
        return max(1.0, 1 + a / 3), max(1.0, 1 + b / 3)

    def __call__(self, seen: Compared) -> Tensor:
        span = self.most - self.least
        present = torch.bincount(seen.group, minlength=seen.size) > 0
        rates = ((segment_mean(seen.value, seen.group, seen.size) - self.least) / span).clamp(0.0, 1.0)
        alpha, beta = self.parameters(rates[present])
        return (1 / beta_density(rates, alpha, beta)).clamp(max=self.cap)[seen.group] / span

"""BNPO: GRPO normalised by a Beta density fitted to the batch's success rates (Xiao et al., arXiv:2506.02864).

Centred rewards are divided not by the group's deviation but by that density at the group's mean (`BetaDensity`); plain
centring and GRPO are two of its cases. Several rewards are normalised apart and averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.segments import segment_mean
from hocket.credit.group import GroupRelative
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.bnpo.parts import EachScore


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


BNPO = GRPO.but(
    name="bnpo",
    title="Beta Normalisation Policy Optimisation",
    source="Xiao et al., arXiv:2506.02864",
    catalogue_ids=("bnpo",),
    formula="A_i = (R_i - p)/Beta_pdf(p; alpha, beta),  alpha = max(1, 1 + a/3), beta = max(1, 1 + b/3)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "1, of the variance of the groups' means that the fit takes",
        "epsilon": "none; the factor is at most 1e6, as in the release",
        "fit": "p ~ Beta(a, b) by moments over the batch's groups; 1, 1 for fewer than two groups or equal means",
        "range": "rewards are mapped from [least, most] = [0, 1] to [0, 1]; means beyond are clamped",
        "loss": "GRPO's; the released runs sum over a sample's decisions, clip at 0.28 above and bound ratios "
        "by 10 where the advantage is negative",
        "group of one": "advantage 0; in the released code its mean counts as 0 in the fit",
        "several rewards": "credit.scores names those that each get their own advantage; the mean of them counts",
    },
    credit=EachScore(credit=GroupRelative(scale=None, weigh=(BetaDensity(),))),
)

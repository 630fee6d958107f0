"""MAPO: GRPO that normalises by the mean where a group is nearly all right or wrong (Huang et al., arXiv:2509.18849).

`MixedDeviation` blends the z-score with the deviation relative to the mean, by how certain the group's outcome is,
which pushes a rare success harder and a rare failure softer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.segments import segment_std
from hocket.credit.group import GroupRelative
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.grpo import GRPO


def mixed_divisor(
    mean: Tensor, deviation: Tensor, certainty: Tensor, epsilon: float, mix: float | None = None
) -> Tensor:
    """`(1 - lam)/(sigma + eps) + lam/(mu + eps)`, `lam = 1 - 4 p (1 - p)`: MAPO's factor on `R - mu`; same shape.

    A `mix` is lam itself. The second part is 0 where the mean is not positive (a relative deviation from 0 has no
    meaning), the first where sigma and eps are both 0.
    """
    lam = 1 - 4 * certainty * (1 - certainty) if mix is None else mix
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
        mix: lam for every group: 1 is the mean form alone (advantage percent deviation), 0 the z-score; None goes by
            certainty.
    """

    ddof: int = 1
    epsilon: float = 1e-6
    success: float | None = 0.5
    mix: float | None = None

    def __post_init__(self) -> None:
        if self.mix is not None and not 0 <= self.mix <= 1:
            raise ValueError(f"mix must lie in [0, 1], not {self.mix}")

    def __call__(self, seen: Compared) -> Tensor:
        deviation = segment_std(seen.value, seen.group, seen.size, ddof=self.ddof)[seen.group]
        return mixed_divisor(seen.mean(), deviation, seen.accuracy(self.success), self.epsilon, self.mix)


MAPO = GRPO.but(
    name="mapo",
    title="Mixed Advantage Policy Optimisation",
    source="Huang et al., arXiv:2509.18849",
    catalogue_ids=("mapo",),
    formula="A = (1 - lam)(R - mu)/(sigma + eps) + lam (R - mu)/(mu + eps),  lam = 1 - 4p(1 - p)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "1, as in the release: credit.weigh.0.ddof",
        "epsilon": "1e-6, added to sigma and to mu",
        "certainty": "p is the share of returns above 0.5 (the release counts rewards equal to 1)",
        "mean not positive": "no relative part",
        "mean form": "credit.weigh.0.mix = 1 divides by the mean alone, in every group",
    },
    credit=GroupRelative(scale=None, weigh=(MixedDeviation(),)),
)

"""How much a group, or a member of it, counts: factors on group-relative credit that read the group itself.

Set as `GroupRelative(weigh=(...,))`. A factor may depend on everything the group shows, so that difficulty, noise,
certainty and normalisations other than the standard deviation are all one kind of thing. A factor never makes credit
out of none: where the centred return is 0, the product is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hocket.segments import segment_extreme, segment_mean
from hocket.stages import Stage
from hocket.types import Batch


class Compared(NamedTuple):
    """What a weight may look at: the M members that count, and how they are grouped.

    Attributes:
        value: returns, `[M]` float64. credit: after mean and scale, before any weight, `[M]`.
        group: `[M]` in 0..size-1. trajectory: whose member it is, `[M]` in 0..N-1. batch: all of it.
    """

    value: Tensor
    credit: Tensor
    group: Tensor
    size: int
    trajectory: Tensor
    batch: Batch

    def mean(self) -> Tensor:
        """The mean return of each member's group, `[M]`."""
        return segment_mean(self.value, self.group, self.size)[self.group]

    def accuracy(self, success: float | None) -> Tensor:
        """The share of members whose return exceeds `success`, of each member's group, `[M]`.

        None is halfway between the lowest and the highest return of the batch.
        """
        halfway = float(self.value.min() + self.value.max()) / 2 if len(self.value) else 0.0
        return segment_mean((self.value > (halfway if success is None else success)).double(), self.group, self.size)[
            self.group
        ]

    def differs(self) -> Tensor:
        """Whether the returns of each member's group are not all equal, `[M]` bool."""
        highest = segment_extreme(self.value, self.group, self.size, largest=True)
        lowest = segment_extreme(self.value, self.group, self.size, largest=False)
        return (highest > lowest)[self.group]


class Weight(Stage):
    """A factor on the credit of each member."""

    room = "credit"

    def __call__(self, seen: Compared) -> Tensor:
        """`[M]` float64, finite."""
        raise NotImplementedError


def noise_weight(observed: Tensor, flip: float, epsilon: float) -> Tensor:
    """`(1-2p) t(1-t) / (sqrt(q(1-q)+e) sqrt(t(1-t)+e))`, `t = clip((q-p)/(1-2p), 0, 1)`; same shape as q.

    q is the observed share of successes, p the probability that a label is flipped, t the share of true successes that
    q suggests. It is the correlation of a noisy and a true label, hence the least-squares factor from the noisy
    standardised advantage to the clean one (S-GRPO, arXiv 2508.05928; e keeps the roots from 0).
    """
    true = ((observed - flip) / (1 - 2 * flip)).clamp(0.0, 1.0)
    noisy_variance, true_variance = observed * (1 - observed), true * (1 - true)
    return (1 - 2 * flip) * true_variance / ((noisy_variance + epsilon).sqrt() * (true_variance + epsilon).sqrt())


@dataclass(frozen=True)
class NoiseAware(Weight):
    """The weight of S-GRPO for rewards that are flipped with symmetric probability `flip`; see `noise_weight`.

    Attributes:
        flip: probability that a label is wrong, in [0, 0.5). epsilon: inside both roots.
        success: a member counts as right when its return exceeds this; None is halfway between the lowest and the
            highest return of the batch.
    """

    flip: float = 0.1
    epsilon: float = 1e-8
    success: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.flip < 0.5:
            raise ValueError(f"flip must lie in [0, 0.5), not {self.flip}: at one half labels say nothing")
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be at least 0, not {self.epsilon}")

    def __call__(self, seen: Compared) -> Tensor:
        weight = noise_weight(seen.accuracy(self.success), self.flip, self.epsilon)
        return torch.nan_to_num(weight)  # Without epsilon an unmixed group divides 0 by 0.


@dataclass(frozen=True)
class Difficulty(Weight):
    """`exp(-strength * mean_g R)`, divided by its mean over the batch's members: hard groups count more.

    DGRPO of VITAL (arXiv 2508.04416) weighs by difficulty, read off the group's own rewards. The paper's abstract does
    not state the function; an exponential is chosen here, because it is monotone for rewards of any range and equal
    differences of the mean give equal ratios of weights. Strength 0, and equal means, give 1.
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.strength < 0:
            raise ValueError(f"strength must be at least 0, not {self.strength}")

    def __call__(self, seen: Compared) -> Tensor:
        if not len(seen.value):
            return seen.value
        # A softmax over members is the same ratio and overflows for no range of rewards.
        return torch.softmax(-self.strength * seen.mean(), 0) * len(seen.value)


def logistic_weight(accuracy: Tensor, floor: float, height: float, slope: float, centre: float) -> Tensor:
    """`floor + height / (1 + exp(slope (x - centre)))`, same shape as x (GRPO-LEAD, arXiv 2504.09696)."""
    return floor + height * torch.sigmoid(-slope * (accuracy - centre))


@dataclass(frozen=True)
class LogisticAccuracy(Weight):
    """`w(rho)` where credit is positive and `w(1 - rho)` elsewhere, rho the group's accuracy; see `logistic_weight`.

    Rare successes on hard scenarios and rare failures on easy ones count most: GRPO-LEAD (arXiv 2504.09696), with the
    constants of its code. `success`: a member counts as right when its return exceeds this.
    """

    floor: float = 0.4
    height: float = 1.1
    slope: float = 10.0
    centre: float = 0.75
    success: float | None = 0.5

    def __call__(self, seen: Compared) -> Tensor:
        accuracy = seen.accuracy(self.success)
        looked = torch.where(seen.credit > 0, accuracy, 1 - accuracy)
        return logistic_weight(looked, self.floor, self.height, self.slope, self.centre)


@dataclass(frozen=True)
class SignalShare(Weight):
    """`B / (B - M)`, the same for all: B members in the batch, M of them in groups whose returns are all equal.

    GPG (arXiv 2504.02546) so undoes the shrinking of a mean over B by members that have no gradient; its code divides
    the loss by the share of the others. `most` bounds the factor; without any signal it is 1.
    """

    most: float = float("inf")

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most must be at least 1, not {self.most}")

    def __call__(self, seen: Compared) -> Tensor:
        valid = int(seen.differs().sum())
        factor = min(len(seen.value) / valid, self.most) if valid else 1.0
        return torch.full_like(seen.value, factor)

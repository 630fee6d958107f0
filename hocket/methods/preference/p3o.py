"""P3O: the policy gradient of pairs, clipped answer by answer or pair by pair (Wu et al., arXiv:2310.00212).

For two answers of one prompt only the difference of their rewards counts, so what is added to every reward of a prompt
changes nothing, and neither a critic nor a baseline is needed. On the policy's own samples and unclipped it is RLOO.
The gradient was derived and checked; the exact form of the two clips was recalled, and is chosen here as PPO's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import HocketError
from hocket.core.signals import returns
from hocket.credit.pairs import Pairing, members_by_group, paired
from hocket.methods.base.conventions import RATIO
from hocket.methods.base.rloo import RLOO
from hocket.objectives.aggregate import counted_lengths, mean, trajectory_means, trajectory_sums
from hocket.objectives.ratios import log_ratios, saturated
from hocket.objectives.surrogate import clipped_surrogate
from hocket.rewards.shaping import KLInReward
from hocket.rollout.independent import Independent
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

Clip = Literal["separate", "joint"]


@dataclass(frozen=True)
class EveryTwo(Pairing):
    """Every two trajectories of a group, ties included, and the return of each as its advantage.

    Pairs whose returns differ by `margin` or less stay where it is 0.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]` and advantages `[E]` float64."""
        value = returns(batch)
        found = [
            (first, other)
            for members in members_by_group(batch, self.by)
            for place, first in enumerate(members)
            for other in members[place + 1 :]
            if self.margin == 0 or abs(float(value[first] - value[other])) > self.margin
        ]
        seen = paired(batch, found)
        return replace(seen, advantage=value.double()[seen.trajectory])


@dataclass(frozen=True)
class PairwiseSurrogate(Objective):
    """Minimises the mean over pairs of a clipped surrogate whose gradient is -(A_1 - A_2) w_1 w_2 grad log(w_1/w_2)/2.

    w is an answer's whole ratio to the policy that sampled it. With `separate` each answer's ratio is clipped as PPO
    does, the other's being a constant weight; with `joint` the pair's weight w_1 w_2 is.

    Attributes:
        clip: see above. low, high: to [1 - low, 1 + high]; None for no clip.
    """

    clip: Clip = "separate"
    low: float | None = 0.2
    high: float | None = 0.2

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.PAIR
    compares_pairs: ClassVar[bool] = True
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.clip not in get_args(Clip):
            raise ValueError(f"clip is {self.clip!r}; choose from {', '.join(get_args(Clip))}")
        if (self.low is not None and not 0 <= self.low <= 1) or (self.high is not None and self.high < 0):
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        if seen.pairs is None:
            raise HocketError("the loss compares pairs, but credit gave none; use a credit that pairs trajectories")
        drift = saturated(trajectory_sums(log_ratios(now, batch), batch))[seen.pairs]
        advantage = trajectory_means(seen.advantage.detach().to(dtype), batch)[seen.pairs]
        better = advantage[:, 0] - advantage[:, 1]
        weight = saturated(drift.detach().sum(1)).exp()
        counted = (counted_lengths(batch)[seen.pairs] > 0).all(1)
        if self.clip == "separate":
            first, second = (drift - drift.detach()).exp().unbind(1)
            own = drift.detach().exp()
            value = own[:, 1] * self._clipped(own[:, 0] * first, better)
            value = (value + own[:, 0] * self._clipped(own[:, 1] * second, -better)) / 2
        else:
            moving = drift[:, 0] - drift[:, 1]
            value = self._clipped(weight * (moving - moving.detach()).exp(), better) / 2
        metrics = {"ratio/pairs": mean(weight, counted)}
        return Terms(value, counted.to(dtype) / counted.sum().clamp(min=1), Level.PAIR, metrics)

    def _clipped(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        low = 1.0 if self.low is None else self.low
        high = torch.inf if self.high is None else self.high
        if self.low is None and self.high is None:
            return -ratio * advantage
        return clipped_surrogate(ratio, advantage, low, high)


P3O = RLOO.but(
    name="p3o",
    title="Pairwise Proximal Policy Optimisation",
    source="Wu et al., arXiv:2310.00212; the gradient derived, the form of the clips chosen here",
    family="preference",
    catalogue_ids=("p3o",),
    axes=("objective", "credit"),
    formula="grad L = -mean_pairs (r_1 - r_2) w_1 w_2 grad log(w_1/w_2) / 2,  r = R - beta log pi_old/ref,  "
    "w = pi(y)/pi_old(y), clipped each or as the product",
    conventions={
        **RATIO,
        "aggregation": "log-ratios summed over an answer, mean over every two samples of a scenario, ties included",
        "clip": "each answer's ratio, PPO's way, to [0.8, 1.2], the other's a constant weight; objective.clip = joint "
        "clips their product instead",
        "KL": "beta = 0.05, in the reward (k1)",
        "group of one": "no pair",
        "constant group": "no gradient but for the KL's differences",
        "updates per batch": "4",
    },
    rollout=Independent(samples=2),
    shaping=(KLInReward(coefficient=0.05, estimator="k1"),),
    credit=EveryTwo(),
    objective=PairwiseSurrogate(),
).but({"update.epochs": 4})

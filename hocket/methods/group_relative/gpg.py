"""GPG: plain policy gradient with the group's mean as baseline (Chu et al., arXiv:2504.02546).

GRPO without ratio, clip, deviation and KL. `SignalShare` undoes the shrinking by groups whose rewards are all equal,
and such groups are asked again while they are too many (`DynamicSampling` of `hocket.rollout.dynamic`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.credit.group import GroupRelative
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.grpo import GRPO
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.rollout.dynamic import DynamicSampling


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


GPG = GRPO.but(
    name="gpg",
    title="Group Policy Gradient",
    source="Chu et al., arXiv:2504.02546",
    catalogue_ids=("gpg",),
    formula="L = -alpha/sum_i n_i sum_i sum_t (R_i - mean_g R) log pi_it,  alpha = B/(B - M)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken (F_norm = 1); credit.scale = std is the paper's other choice",
        "epsilon": "none",
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "none: no ratio, so one update per batch",
        "KL": "none, as in the paper",
        "alpha": "B trajectories over those in groups whose rewards differ, as in the authors' code; not bounded",
        "constant group": "advantage 0; asked again while fewer than 0.6 of the groups have signal, at most 3 rounds",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3, enough=0.6),
    credit=GroupRelative(scale=None, weigh=(SignalShare(),)),
    objective=PolicyGradient(aggregate="token-mean"),
)

"""DGRPO of VITAL: GRPO that weighs hard groups more (Thinking With Videos, Zhang et al., arXiv:2508.04416).

`Difficulty` multiplies a group's advantages by a weight that falls with its mean reward, 1 on average; its exponential
form is chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.credit.weights import Compared, Weight
from hocket.methods.base.grpo import GRPO


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


VITAL_DGRPO = GRPO.but(
    name="vital-dgrpo",
    title="Difficulty-aware GRPO",
    source="Zhang et al., Thinking With Videos, arXiv:2508.04416",
    catalogue_ids=("vital-dgrpo",),
    formula="A_i' = w_g (R_i - mean_g R)/(std_g R + eps),  w_g ~ exp(-kappa mean_g R), mean 1 over the batch",
    conventions={
        **GRPO.conventions,
        "difficulty": "the group's mean reward; the weight's form is our choice, kappa = credit.weigh.0.strength = 1",
    },
    note="shown on text with a tool that looks frames up in a list of integers; its modality comes later",
    **{"credit.weigh": (Difficulty(strength=1.0),)},
)

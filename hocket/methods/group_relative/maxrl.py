"""MaxRL: returns over the group's mean, for the likelihood of being right (Tajwar et al., arXiv:2602.02710).

A policy gradient raises the chance p to be right; maximum likelihood raises log p, whose gradient is 1/p times as
large: hard questions count more. Dividing by the observed share of right answers gives the part of it that so many
samples can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.segments import segment_mean
from hocket.credit.formulas import centred
from hocket.credit.units import trajectory_units
from hocket.methods.base.grpo import GRPO
from hocket.stages import Credit


@dataclass(frozen=True)
class OverMean(Credit):
    """`A_i = (R_i - mean_g R) / (mean_g R + epsilon)`; 0 in constant groups, among them those where nobody is right.

    For verdicts of 0 and 1 and N samples, the expected gradient is that of `sum_{k=1}^{N-1} pass@k / k`, which grows to
    log p with N. Returns are to be at least 0.
    """

    by: GroupBy = GroupBy("scenario")
    epsilon: float = 1e-6

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are compared: by may not name a column of turns")
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be at least 0, not {self.epsilon}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = trajectory_units(batch)
        used = units.counted
        group, size = units.groups(self.by, batch)
        value, group = units.value[used], group[used]
        middle = centred(value, group, size)
        mean = segment_mean(value, group, size)[group]
        advantage = torch.zeros(len(used), dtype=torch.float64)
        advantage[used] = torch.where(middle == 0, 0.0, middle / (mean + self.epsilon))
        return replace(batch.occurrences, advantage=advantage[units.member])


MAXRL = GRPO.but(
    name="maxrl",
    title="Maximum likelihood reinforcement learning",
    source="Tajwar et al., arXiv:2602.02710",
    formula="A_i = (R_i - mean_g R) / (mean_g R + eps)",
    conventions={
        **GRPO.conventions,
        "standard deviation": "none; the group's mean takes its place",
        "epsilon": "1e-6, added to the mean",
        "baseline": "the mean, our choice: without it the expected gradient is that of the sum to N, with it to N - 1",
        "returns": "verdicts of 0 and 1 in the paper; others must be at least 0",
    },
    credit=OverMean(),
)

"""OPO: on-policy learning with the baseline of least variance (Hao et al., arXiv:2505.23585).

The baseline of least variance weighs returns by the squared norm of their gradients. Where that grows with an answer's
length, it is the group's mean return weighted by lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.segments import segment_count, segment_sum
from hocket.credit.formulas import centred
from hocket.credit.units import trajectory_units
from hocket.methods.base.grpo import GRPO
from hocket.stages import Credit


@dataclass(frozen=True)
class LengthWeightedBaseline(Credit):
    """`A_i = R_i - sum_j l_j R_j / sum_j l_j` over the group, l the counted decisions of a sample.

    A group of one gets 0, and so does a constant group. Members whose weights are all 0 enter no sum and get 0.
    """

    by: GroupBy = GroupBy("scenario")

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are compared: by may not name a column of turns")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units, seen = trajectory_units(batch), batch.occurrences
        group, size = units.groups(self.by, batch)
        length = segment_count(units.member[seen.weight != 0], len(units.value)).double()
        # Centred first: a constant group is exactly 0 then, whatever the weights.
        value = torch.zeros_like(units.value)
        value[units.counted] = centred(units.value[units.counted], group[units.counted], size)
        baseline = segment_sum(length * value, group, size) / segment_sum(length, group, size).clamp(min=1)
        advantage = torch.where(units.counted, value - baseline[group], 0.0)
        return replace(seen, advantage=advantage[units.member])


OPO = GRPO.but(
    name="opo",
    title="On-policy RL with optimal reward baseline",
    source="Hao et al., arXiv:2505.23585; verl 0.9",
    formula="A_i = R_i - sum_j l_j R_j / sum_j l_j;  one update per batch, mean over all decisions",
    conventions={
        **GRPO.conventions,
        "standard deviation": "none",
        "epsilon": "none",
        "length": "decisions that count",
        "aggregation": "mean over all decisions of the batch, verl's default",
        "updates per batch": "one, so that the ratio is 1; no KL term and no entropy bonus, as in the paper",
    },
    credit=LengthWeightedBaseline(),
    **{"objective.aggregate": "token-mean"},
)

"""GRPO for pass@k: credit for what only the best of k samples adds (Tang et al., arXiv:2503.19595).

Trained for the best of k, a sample is worth what the maximum loses without it: the best one's lead over the second
best, and nothing for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.segments import segment_count, segment_extreme
from hocket.credit.formulas import centred, scaled
from hocket.credit.units import trajectory_units
from hocket.methods.base.grpo import GRPO
from hocket.stages import Credit


@dataclass(frozen=True)
class LeadOfTheBest(Credit):
    """`A_i = max_j R_j - max_{j != i} R_j` over the group: the leave-one-out form of the best of k.

    Attributes:
        scale: `std` divides by the deviation of the group's returns, as verl does; None, the paper's, is unbiased.
        ddof, epsilon: as in `GroupRelative`.
    """

    by: GroupBy = GroupBy("scenario")
    scale: Literal["std"] | None = None
    ddof: int = 1
    epsilon: float = 1e-6

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are compared: by may not name a column of turns")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = trajectory_units(batch)
        used = units.counted
        group, size = units.groups(self.by, batch)
        value, group = units.value[used], group[used]
        best = segment_extreme(value, group, size, largest=True)
        leads = value == best[group]
        alone = segment_count(group[leads], size) == 1
        second = segment_extreme(torch.where(leads, -torch.inf, value), group, size, largest=True)
        # A group of one has no second.
        lead = torch.where(second.isfinite(), best - second, 0.0)
        credit = torch.where(leads & alone[group], lead[group], 0.0)
        if self.scale == "std":
            middle = centred(value, group, size)
            credit = scaled(credit, middle, group, size, ddof=self.ddof, epsilon=self.epsilon)
        advantage = torch.zeros(len(used), dtype=torch.float64)
        advantage[used] = credit
        return replace(batch.occurrences, advantage=advantage[units.member])


GRPO_PASS_AT_K = GRPO.but(
    name="grpo-pass-at-k",
    title="GRPO for pass@k",
    source="Tang et al., arXiv:2503.19595; verl 0.9 (grpo_passk)",
    formula="A_i = max_j R_j - max_{j != i} R_j,  k the samples of a group",
    conventions={
        **GRPO.conventions,
        "standard deviation": "none, so that the gradient is that of the expected maximum of k; verl divides by it",
        "epsilon": "1e-6 where credit.scale is std",
        "ties": "give 0: without one of two equally good samples the maximum stays",
        "aggregation": "mean over all decisions of the batch",
    },
    credit=LeadOfTheBest(),
    **{"objective.aggregate": "token-mean"},
)

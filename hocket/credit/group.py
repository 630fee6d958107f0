"""Credit relative to a group of comparable samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from hocket.credit.formulas import centred, leave_one_out, scaled
from hocket.credit.units import trajectory_units, turn_units
from hocket.types import Batch, Column, GroupBy, Level, Occurrences


@dataclass(frozen=True)
class GroupRelative:
    """`A_i = (R_i - mean_g R) / (std R + epsilon)`, the same for every decision of a sample.

    GRPO (DeepSeekMath, arXiv 2402.03300): groups are the samples of a scenario. Without `scale` it is Dr. GRPO
    (arXiv 2503.20783), with `leave_one_out` besides RLOO (arXiv 2402.14740), with `scale_by=GroupBy()`
    REINFORCE++-baseline (arXiv 2501.03262). R is the undiscounted return; when `by` names a column of turns, members
    are turns and R is the reward from the turn's first decision to the end, as in GiGPO (arXiv 2505.10978).

    A constant group, and a group of one, give exactly 0. Members whose weights are all 0 enter no statistic and get 0.

    Attributes:
        by: what makes samples comparable; where the mean is taken.
        scale: `std` divides by the standard deviation of the centred returns, None does not.
        ddof: 1 divides the sum of squares by G - 1, 0 by G.
        epsilon: added to the deviation.
        leave_one_out: the mean is that of the group's other members.
        scale_by: where the deviation is taken; None is as `by`, `GroupBy()` the whole batch.
    """

    by: GroupBy = GroupBy("scenario")
    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-6
    leave_one_out: bool = False
    scale_by: GroupBy | None = None

    reads: ClassVar[frozenset[Column]] = frozenset()
    pairs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if self.scale_by is not None and self.scale_by.level is Level.TURN and self.by.level is not Level.TURN:
            raise ValueError("scale_by names a column of turns but by compares whole trajectories; add it to by")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario: one sample alone has nothing to be compared with."""
        return 2 if "scenario" in self.by.columns else 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = (turn_units if self.by.level is Level.TURN else trajectory_units)(batch)
        used = units.counted
        group, size = units.groups(self.by, batch)
        value, group = units.value[used], group[used]
        middle = centred(value, group, size)
        credit = leave_one_out(value, group, size) if self.leave_one_out else middle
        if self.scale == "std":
            index, number = units.groups(self.scale_by or self.by, batch)
            credit = scaled(credit, middle, index[used], number, ddof=self.ddof, epsilon=self.epsilon)
        advantage = torch.zeros(len(used), dtype=torch.float64)
        advantage[used] = credit
        return replace(batch.occurrences, advantage=advantage[units.member])

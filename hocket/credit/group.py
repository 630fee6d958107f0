"""Credit relative to a group of comparable samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.segments import segment_count, suffix_sum
from hocket.credit.formulas import centred, leave_one_out, scaled
from hocket.credit.units import Units, step_units, trajectory_units, turn_units
from hocket.credit.weights import Compared, Weight
from hocket.stages import Credit


@dataclass(frozen=True)
class GroupRelative(Credit):
    """`A_i = (R_i - mean_g R) / (std R + epsilon)`, the same for every decision of a sample.

    GRPO (DeepSeekMath, arXiv 2402.03300): groups are the samples of a scenario. Without `scale` it is Dr. GRPO
    (arXiv 2503.20783), in addition with `leave_one_out` it is RLOO (arXiv 2402.14740), with `scale_by=GroupBy()`
    REINFORCE++-baseline (arXiv 2501.03262). R is the undiscounted return; when `by` names a column of turns, members
    are turns and R is the reward from the turn's first decision to the end, as in GiGPO (arXiv 2505.10978).

    A constant group, and a group of one, get exactly 0. Members whose weights are all 0 enter no statistic and get 0.
    Virtual samples enter mean and deviation but get no credit; with them, both kinds of groups may get other values:
    NGRPO (arXiv 2509.18851).

    Attributes:
        by: defines the groups over which the mean is taken.
        scale: `std` divides by the standard deviation of the centred returns, None does not.
        ddof: 1 divides the sum of squares by G - 1, 0 by G.
        epsilon: added to the deviation.
        leave_one_out: the mean is that of the group's other members.
        scale_by: defines the groups over which the deviation is taken; None is as `by`, `GroupBy()` the whole batch.
        virtual: returns of virtual samples in every group, which enter mean and deviation.
        weigh: factors on each member's credit, multiplied in order; see `hocket.credit.weights`.
    """

    by: GroupBy = GroupBy("scenario")
    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-6
    leave_one_out: bool = False
    scale_by: GroupBy | None = None
    virtual: tuple[float, ...] = ()
    weigh: tuple[Weight, ...] = ()

    def __post_init__(self) -> None:
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if self.scale_by is not None and self.scale_by.level is Level.TURN and self.by.level is not Level.TURN:
            raise ValueError("scale_by names a column of turns but by compares whole trajectories; add it to by")

        if self.virtual and self.scale_by is not None:
            raise ValueError("virtual samples belong to the groups of by; leave scale_by unset or virtual empty")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario, because a single sample has no baseline."""
        return 2 if "scenario" in self.by.columns and not self.virtual else 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = (turn_units if self.by.level is Level.TURN else trajectory_units)(batch)
        used = units.counted
        group, size = units.groups(self.by, batch)
        value, group = units.value[used], group[used]
        credit = self._normalised(units, value, group, size, batch)
        compared = Compared(value, credit, group, size, units.trajectory[used], batch)
        for weight in self.weigh:
            credit = credit * weight(compared)
        advantage = torch.zeros(len(used), dtype=torch.float64)
        advantage[used] = credit
        return replace(batch.occurrences, advantage=advantage[units.member])

    def _normalised(self, units: Units, value: Tensor, group: Tensor, size: int, batch: Batch) -> Tensor:
        """Credit of the counted members, before weights, `[M]`."""
        pool, pooled = self._pool(value, group, size)
        middle = centred(pool, pooled, size)
        credit = leave_one_out(pool, pooled, size) if self.leave_one_out else middle
        if self.scale == "std":
            index, number = pooled, size
            if self.scale_by is not None:
                index, number = units.groups(self.scale_by, batch)
                index = index[units.counted]
            credit = scaled(credit, middle, index, number, ddof=self.ddof, epsilon=self.epsilon)
        return credit[: len(value)]

    def _pool(self, value: Tensor, group: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The returns of members, then of each group's virtual samples, and the group of each."""
        if not self.virtual:
            return value, group
        present = torch.nonzero(segment_count(group, size)).flatten()
        virtual = torch.tensor(self.virtual, dtype=value.dtype)
        return torch.cat([value, virtual.repeat(len(present))]), torch.cat(
            [group, present.repeat_interleave(len(virtual))]
        )


@dataclass(frozen=True)
class StepRelative(Credit):
    """`A_t = sum_{j >= t} gamma^(j - t) (r_j - mean_g r)/(std_g r + epsilon)` over steps: GRPO's process form.

    DeepSeekMath (arXiv 2402.03300, section 4.1.3). A step is a segment of a turn; a turn without segments is one step.
    The reward r_j of a step is the sum of the rewards in it; the trajectory's reward counts at its last step. Mean and
    deviation are over every step of the group's trajectories, so long answers weigh more in them. With one step per
    trajectory it is `GroupRelative`. Steps whose weights are all 0 enter no statistic and contribute nothing.

    The mean is subtracted at every following step. So if the policy determines the number of steps, the expected
    gradient has a bias that no group size removes: -mean times the gradient of the number of following steps. A
    positive mean reward per step shortens episodes, a negative one lengthens them. `hocket.credit.TurnRelative` has no
    such bias.

    Attributes:
        by: columns of trajectories that define the groups of steps.
        scale, ddof, epsilon: as in `GroupRelative`. gamma: discount per step, in [0, 1].
    """

    by: GroupBy = GroupBy("scenario")
    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-6
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if self.by.level is Level.TURN:
            raise ValueError("steps of whole trajectories are compared: by may not name a column of turns")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario."""
        return 2 if "scenario" in self.by.columns else 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = step_units(batch)
        used = units.counted
        group, size = units.groups(self.by, batch)
        middle = centred(units.value[used], group[used], size)
        if self.scale == "std":
            middle = scaled(middle, middle, group[used], size, ddof=self.ddof, epsilon=self.epsilon)
        credit = torch.zeros(len(used), dtype=torch.float64)
        credit[used] = middle
        to_go = suffix_sum(credit, units.trajectory, batch.trajectories, discount=self.gamma)
        return replace(batch.occurrences, advantage=to_go[units.member])

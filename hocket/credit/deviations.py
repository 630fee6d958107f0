"""Divisors of centred returns other than the group's deviation, as factors for `GroupRelative(scale=None)`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.segments import segment_count, segment_sum
from hocket.credit.weights import Compared, Weight


@dataclass(frozen=True)
class OverOthersDeviation(Weight):
    """`1 / (s_i + epsilon)`, s_i the sample deviation of the group's other members; 1 where that is 0.

    With `GroupRelative(scale=None, leave_one_out=True)` it is NeMo-RL's default, whose mean and deviation both exclude
    the sample. If the other members have equal returns, the centred return is not divided.
    """

    epsilon: float = 1e-6

    def __call__(self, seen: Compared) -> Tensor:
        count = segment_count(seen.group, seen.size)[seen.group]
        middle = seen.value - seen.mean()
        squares = segment_sum(middle.square(), seen.group, seen.size)[seen.group]
        # Removing one of n members reduces the sum of squares around the mean by its own square times n / (n - 1).
        left = squares - middle.square() * count / (count - 1).clamp(min=1)
        variance = left / (count - 2).clamp(min=1)
        agree = (count < 3) | (left <= 1e-12 * squares)
        return torch.where(agree, 1.0, 1 / (variance.clamp(min=0).sqrt() + self.epsilon))


@dataclass(frozen=True)
class OverRawDeviation(Weight):
    """`1 / (s + epsilon)`, s the sample deviation of all returns of the batch, not centred by group.

    TRL's `scale_rewards="batch"`. Differences between prompts enter s, so groups of similar rewards weigh less than
    with `GroupRelative(scale_by=GroupBy())`, which takes the deviation of the centred returns.
    """

    epsilon: float = 1e-4

    def __call__(self, seen: Compared) -> Tensor:
        spread = float(seen.value.std()) if len(seen.value) > 1 else 0.0
        return torch.full_like(seen.value, 1 / (spread + self.epsilon) if spread + self.epsilon > 0 else 1.0)

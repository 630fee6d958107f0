"""Division by the deviation where a group holds right and wrong answers, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.credit.weights import Compared, Weight
from hocket.segments import segment_extreme, segment_std


@dataclass(frozen=True)
class DeviationUnlessAllRight(Weight):
    """`1 / (std_g R + epsilon)` in groups with a wrong answer, 1 in groups without.

    For ConciseR (arXiv 2505.21178): in a group of right answers returns differ by their lengths alone, and division
    by the deviation would blow tiny differences up to full size. Set with `scale=None`.

    Attributes:
        least: a member is right when its return is at least this. ddof, epsilon: as in `GroupRelative`.
    """

    least: float = 0.5
    ddof: int = 1
    epsilon: float = 1e-6

    def __call__(self, seen: Compared) -> Tensor:
        lowest = segment_extreme(seen.value, seen.group, seen.size, largest=False)
        divisor = segment_std(seen.value, seen.group, seen.size, ddof=self.ddof) + self.epsilon
        factor = torch.where((lowest < self.least) & (divisor > 0), 1 / divisor, torch.ones_like(divisor))
        return factor[seen.group]

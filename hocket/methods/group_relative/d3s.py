"""D3S: GRPO on the samples and tokens with the strongest signal (Wang et al., arXiv:2509.22115).

`DownSampled` keeps the share of the batch's samples whose advantages vary most, and of their tokens those with the
largest advantage times entropy; both shares grow towards everything over the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.schedules import Linear, Setting, bounds, value_at
from hocket.core.segments import segment_extreme, segment_mean
from hocket.core.signals import counted_trajectories
from hocket.credit.refinement import Refined, only
from hocket.methods.base.conventions import ENTROPY
from hocket.methods.base.grpo import GRPO


def in_assignment_order(batch: Batch) -> Tensor:
    """All occurrences, those of trajectories asked earlier first: a permutation `[E]` that no packing order changes."""
    seen = batch.occurrences
    return torch.argsort(batch.order[seen.trajectory], stable=True)


def largest_variance(values: Tensor, size: int) -> Tensor:
    """The `size` of `values` `[M]` with the largest variance, as places in it; `size` is at most M.

    A subset of largest variance is made of some of the lowest and some of the highest: if a member lay strictly between
    two that are left out, moving it to one of them would raise the variance, which is convex in it. So the number of
    lowest ones is scanned. Among equally good splits the one with the fewest lowest is taken, among equals the earlier.
    """
    ranked = torch.argsort(values, stable=True)
    ordered = values[ranked].double()
    ordered = ordered - ordered.mean()
    zero = torch.zeros(1, dtype=torch.float64)
    sums = torch.cat([zero, torch.cumsum(ordered, 0)])
    squares = torch.cat([zero, torch.cumsum(ordered.square(), 0)])
    low = torch.arange(size + 1)
    high = len(values) - (size - low)
    total = sums[low] + sums[-1] - sums[high]
    variance = squares[low] + squares[-1] - squares[high] - total.square() / max(size, 1)
    best = int(torch.argmax(variance))
    left = torch.argsort(values, descending=True, stable=True)
    left = left[~torch.isin(left, ranked[:best])]
    return torch.cat([ranked[:best], left[: size - best]])


@dataclass(frozen=True)
class DownSampled(Refined):
    """Two filters between advantage and loss: D3S, dynamic dual-level down-sampling (arXiv 2509.22115).

    Of all trajectories of the batch the `samples` share whose advantages vary most is kept, and of their decisions the
    `decisions` share with the largest `|A_t| H_t`. Both shares follow a schedule, strict at first and relaxed later.
    What is left out has weight 0. Shares are rounded up; among equals the earlier stays. A trajectory whose decisions
    differ in advantage counts with their mean. The abstract gives no numbers; the schedules are our choice.
    """

    samples: Setting = Linear(0.5, 1.0, over=0.75)
    decisions: Setting = Linear(0.5, 1.0, over=0.75)

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("samples", "decisions"):
            low, high = bounds(getattr(self, name))
            if not 0 < low <= high <= 1:
                raise ValueError(f"{name} must stay in (0, 1], not {low} to {high}")

    def refine(self, batch: Batch) -> Occurrences:
        seen = only(batch.occurrences, self._trajectories(batch)[batch.occurrences.trajectory])
        used = in_assignment_order(batch)
        used = used[seen.weight[used] != 0]
        product = seen.advantage[used].abs() * self.entropy(batch)[used]
        ranked = torch.argsort(product, descending=True, stable=True)
        kept = torch.zeros(len(seen), dtype=torch.bool)
        kept[used[ranked[: _rounded_up(value_at(self.decisions, batch.progress), len(used))]]] = True
        return only(seen, kept)

    def _trajectories(self, batch: Batch) -> Tensor:
        """The trajectories kept, `[N]` bool."""
        seen = batch.occurrences
        counted = torch.nonzero(counted_trajectories(batch)).flatten()
        counted = counted[torch.argsort(batch.order[counted], stable=True)]
        wanted = _rounded_up(value_at(self.samples, batch.progress), len(counted))
        kept = torch.zeros(batch.trajectories, dtype=torch.bool)
        kept[counted[largest_variance(_common(seen, batch.trajectories)[counted], wanted)]] = True
        return kept


def _common(seen: Occurrences, size: int) -> Tensor:
    """The advantage of each trajectory's counted decisions, their mean where they differ, `[N]` float64."""
    used = seen.weight != 0
    advantage, trajectory = seen.advantage[used].double(), seen.trajectory[used]
    highest = segment_extreme(advantage, trajectory, size, largest=True)
    lowest = segment_extreme(advantage, trajectory, size, largest=False)
    # A mean of equal numbers may differ from them in the last bit, which would decide between equals.
    return torch.where(highest == lowest, highest, segment_mean(advantage, trajectory, size))


def _rounded_up(share: float, number: int) -> int:
    return min(number, math.ceil(share * number - 1e-9))


D3S = GRPO.but(
    name="d3s",
    title="Dynamic dual-level down-sampling",
    source="Wang et al., Learning More with Less: A Dynamic Dual-Level Down-Sampling Framework, arXiv:2509.22115",
    catalogue_ids=("d3s",),
    axes=("data", "credit"),
    formula="of the batch's samples the subset of largest Var(A), of its decisions those of largest |A_t| H_t",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "shares": "from a half to all over the first three quarters of the run: credit.samples, credit.decisions",
        "rounding": "up; among equals the earlier stays",
        "left out": "weight 0: in no sum and no denominator",
    },
    credit=DownSampled(of=GRPO.credit),
)

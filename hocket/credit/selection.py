"""Which samples and which tokens are learnt from, once credit is known. What is left out is never evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.credit.refined import Refined, in_assignment_order, only
from hocket.schedules import Linear, Setting, bounds, value_at
from hocket.segments import segment_count, segment_extreme, segment_mean
from hocket.signals import counted_trajectories
from hocket.types import Batch, Column, GroupBy, Occurrences


def largest_in_groups(size: Tensor, group: Tensor, groups: int, share: float, order: Tensor) -> Tensor:
    """The `max(1, floor(share G))` members of each group with the largest `size` `[M]`; `[M]` bool.

    Among equals the one with the lower `order` `[M]` is taken.
    """
    by_order = torch.argsort(order, stable=True)
    ranked = by_order[torch.argsort(size[by_order], descending=True, stable=True)]
    ranked = ranked[torch.argsort(group[ranked], stable=True)]
    count = segment_count(group, groups)
    starts = torch.cumsum(count, 0) - count
    place = torch.arange(len(ranked)) - starts[group[ranked]]
    # What floating point makes of G (1 - P) must not lose a member, so a hair is added.
    wanted = (count * share + 1e-9).floor().long().clamp(min=1)
    chosen = torch.zeros(len(size), dtype=torch.bool)
    chosen[ranked[place < wanted[group[ranked]]]] = True
    return chosen


@dataclass(frozen=True)
class Pruned(Refined):
    """Keeps the `floor(G (1 - rate))` samples of largest |A|, at least one: CPPO (arXiv 2503.22342).

    Advantages are not normalised again. The paper prunes within each group; its public recipe for verl takes the
    largest of the whole batch. A sample's |A| is the largest of its decisions'; among equals the earlier sample stays.

    Attributes:
        rate: share of samples left out, in [0, 1).
        over: `group` or `batch`.
        normaliser: `kept`, the paper's: pruned samples have weight 0 and leave the loss's denominators; `all`: they
            have advantage 0 and stay in the denominators, so that leaving out those without credit changes nothing.
    """

    rate: float = 0.75
    over: Literal["group", "batch"] = "group"
    normaliser: Literal["kept", "all"] = "kept"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate < 1:
            raise ValueError(f"rate must lie in [0, 1), not {self.rate}")
        if self.over not in ("group", "batch") or self.normaliser not in ("kept", "all"):
            raise ValueError(
                f"over is 'group' or 'batch' and normaliser 'kept' or 'all', not {self.over!r} and {self.normaliser!r}"
            )

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        counted = torch.nonzero(counted_trajectories(batch)).flatten()
        groups = (GroupBy("scenario") if self.over == "group" else GroupBy())(batch)
        strength = segment_extreme(seen.advantage.abs(), seen.trajectory, batch.trajectories, largest=True)
        kept = torch.zeros(batch.trajectories, dtype=torch.bool)
        index = groups.index[counted]
        kept[counted] = largest_in_groups(strength[counted], index, groups.size, 1 - self.rate, batch.order[counted])
        here = kept[seen.trajectory]
        if self.normaliser == "kept":
            return only(seen, here)
        return replace(seen, advantage=torch.where(here, seen.advantage, torch.zeros_like(seen.advantage)))


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

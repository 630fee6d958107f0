"""Rank-GRPO: GRPO for ranked lists, item by item (Zhu et al., arXiv:2510.20150).

An item earns the discounted gain from its rank on and is compared with the group's items at that rank (`RankRelative`);
the clipped ratio is one per item. Items are lines (`SegmentsByText` of `hocket.rewards.spans`), and `ListGain` tells
which are hits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.formulas import centred, scaled
from hocket.methods.base.grpo import GRPO
from hocket.rewards.spans import SegmentsByText
from hocket.stages import Credit, Reward
from hocket.types import Trajectory


def discounted_gains(hits: Sequence[float]) -> list[float]:
    """`R_k = sum_{j >= k} hit_j / log2(j + 1)`, ranks from 1: the gain of rank k and later ones. R_1 is the DCG."""
    gains = [hit / math.log2(rank + 1) for rank, hit in enumerate(hits, start=1)]
    left, found = 0.0, []
    for gain in reversed(gains):
        left += gain
        found.append(left)
    return found[::-1]


def hits_of(items: Sequence[str], relevant: Sequence[str]) -> list[float]:
    """1 where an item is relevant and is listed for the first time, else 0. Case and outer space are ignored."""
    wanted = {name.strip().casefold() for name in relevant}
    hits = []
    for item in items:
        name = item.strip().casefold()
        hits.append(float(name in wanted))
        wanted.discard(name)
    return hits


@dataclass(frozen=True)
class ListGain(Reward):
    """The discounted cumulative gain of a list with an item per line (Järvelin and Kekäläinen 2002).

    What is relevant are the members of the scenario's answer. The hits by rank become the trajectory's column `hits`,
    which `hocket.credit.RankRelative` reads.
    """

    name: str = "dcg"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        """The gain of each list; None where the scenario does not say what is relevant."""
        return [self._gain(trajectory) for trajectory in trajectories]

    def _gain(self, trajectory: Trajectory) -> float | None:
        relevant = trajectory.scenario.answer
        if not isinstance(relevant, (list, tuple)):
            return None
        items = [line for line in trajectory.text.splitlines() if line.strip()]
        hits = hits_of(items, [str(name) for name in relevant])
        HITS.write(trajectory, hits)
        return discounted_gains(hits)[0] if hits else 0.0


def remaining_gain(hits: Tensor) -> Tensor:
    """`R_k = sum_{j >= k} hit_j / log2(j + 1)` along the last axis, ranks from 1; same shape. R_1 is the DCG."""
    discount = torch.log2(torch.arange(hits.shape[-1], dtype=hits.dtype) + 2)
    return (hits / discount).flip(-1).cumsum(-1).flip(-1)


@dataclass(frozen=True)
class RankRelative(Credit):
    """`A_ik = (R_ik - mean_i R_ik) / (std_i R_ik + epsilon)`, over a group at one rank k: Rank-GRPO (arXiv 2510.20150).

    The items of a list are its segments (`Turn.segment`, or `hocket.rewards.SegmentsByText` which finds them in the
    text), one turn per trajectory. R_ik reads the column `hits`, the gain of each of trajectory i's items; a list that
    is shorter has 0 at the missing ranks. Without hits the whole return stands at every rank.

    Attributes:
        gain: `remaining`, the discounted gain from rank k on (see `remaining_gain`), or `hit`, that of rank k alone.
            Neither looks at ranks before k.
        length: the wished number of items; tokens of later ones get `-overflow`, and the last token of a list that
            ended by itself gets `+complete` if there are exactly `length` items before it and `-early` if fewer. None
            shapes nothing: then the last token belongs to its item like any other.
        overflow, complete, early: the sizes of the public code.
    """

    gain: Literal["remaining", "hit"] = "remaining"
    length: int | None = None
    overflow: float = 0.1
    complete: float = 0.1
    early: float = 0.1
    ddof: int = 1
    epsilon: float = 1e-4

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.gain not in ("remaining", "hit"):
            raise ValueError(f"gain must be 'remaining' or 'hit', not {self.gain!r}")
        if self.length is not None and self.length < 1:
            raise ValueError(f"length must be at least 1, not {self.length}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences
        by_rank = self._advantages(batch)
        rank = batch.segment[seen.decision]
        inside = rank < by_rank.shape[1]
        found = by_rank[seen.trajectory, rank.clamp(max=by_rank.shape[1] - 1)]
        found = torch.where(inside, found, 0.0)
        if self.length is not None:
            found = self._shaped(batch, found, rank)
        return replace(seen, advantage=torch.where(counted_trajectories(batch)[seen.trajectory], found, 0.0))

    def _advantages(self, batch: Batch) -> Tensor:
        """A of each trajectory at each rank, `[N, L]`; 0 for trajectories that do not count."""
        value = self._values(batch)
        used = torch.nonzero(counted_trajectories(batch)).flatten()
        groups = GroupBy("scenario")(batch)
        index = groups.index[used]
        found = torch.zeros_like(value)
        for rank in range(value.shape[1]):
            middle = centred(value[used, rank], index, groups.size)
            found[used, rank] = scaled(middle, middle, index, groups.size, ddof=self.ddof, epsilon=self.epsilon)
        return found

    def _values(self, batch: Batch) -> Tensor:
        """R of each trajectory at each rank, `[N, L]` float64."""
        given: list[Any] = list(HITS.rows(batch))
        ranks = int(batch.segment.max()) + 1 if batch.decisions else 1
        longest = self.length or max([ranks, *(len(row) for row in given if row is not None)])
        rows = torch.zeros(batch.trajectories, longest, dtype=torch.float64)
        for number, row in enumerate(given):
            if row is not None:
                kept = [float(hit) for hit in list(row)[:longest]]
                if not all(math.isfinite(hit) for hit in kept):
                    raise ValueError(f"trajectory {number}: hits must be finite numbers")
                rows[number, : len(kept)] = torch.tensor(kept, dtype=torch.float64)
        value = remaining_gain(rows) if self.gain == "remaining" else rows
        told = torch.tensor([row is not None for row in given])
        return torch.where(told[:, None], value, returns(batch)[:, None])

    def _shaped(self, batch: Batch, found: Tensor, rank: Tensor) -> Tensor:
        """Advantages with what surplus items cost and the end of the list earns."""
        assert self.length is not None
        last = batch.last()
        ended = torch.nonzero((last >= 0) & ~batch.truncated).flatten()
        ends = torch.zeros(len(rank), dtype=torch.bool)
        ends[last[ended]] = True
        items = torch.zeros(batch.trajectories, dtype=torch.long)
        trajectory = batch.occurrences.trajectory
        items = items.scatter_reduce(0, trajectory[~ends], rank[~ends] + 1, "amax")
        earned = torch.zeros(batch.trajectories, dtype=torch.float64)
        earned[items < self.length] = -self.early
        earned[items == self.length] = self.complete
        found = torch.where(~ends & (rank >= self.length), torch.full_like(found, -self.overflow), found)
        return torch.where(ends, earned[trajectory], found)


HITS = InfoColumn("hits", "For each item of a list whether it is relevant, 0 or 1.")


RANK_GRPO = GRPO.but(
    name="rank-grpo",
    title="Rank-GRPO: items of a list as units",
    source="Zhu et al., Rank-GRPO: Training LLM-based Conversational Recommender Systems, arXiv:2510.20150",
    catalogue_ids=("rank-grpo",),
    axes=("credit", "objective", "reward"),
    formula="R_ik = sum_{j>=k} hit_ij/log2(j+1),  A_ik = (R_ik - mean_i)/(std_i + eps),  "
    "L = -1/N sum_i 1/n_i sum_t min(s_ik A_ik, clip(s_ik) A_ik),  s_ik the geometric mean of item k's ratios",
    conventions={
        **GRPO.conventions,
        "epsilon": "1e-4, added to the standard deviation, as in the public code",
        "items": "a line each, the line break with the item before it; shaping.0.separator",
        "reward": "hits by rank, the column hits (see hocket.rewards.ListGain); without it the return at every rank",
        "shorter lists": "0 at the ranks they lack",
        "length": "credit.length: surplus tokens -0.1, the end +0.1 if right and -0.1 if early; off unless set",
        "clipping side": "both, 0.2, whole items",
    },
    shaping=(SegmentsByText(separator="\n"),),
    credit=RankRelative(),
    **{"objective.ratio": "segment"},
)

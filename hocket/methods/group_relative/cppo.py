"""CPPO: GRPO that learns only from the samples of largest advantage (Lin et al., arXiv:2503.22342).

Before any pass of the learner `Pruned` leaves out the rest of each group, without normalising again, and `Refilled`
asks so many more scenarios that the batch keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.keys import Key
from hocket.core.segments import segment_count, segment_extreme
from hocket.core.signals import counted_trajectories
from hocket.credit.refinement import Refined, only
from hocket.methods.base.grpo import GRPO
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class Refilled(Rollout):
    """`samples` of `ceil(B / (1 - rate))` scenarios where B were asked: CPPO's refilled slots (arXiv 2503.22342).

    With `hocket.credit.Pruned(rate)` the batch that is learnt from keeps its size and covers more scenarios. Further
    ones come from the curriculum; where that gives none, the asked ones alone are played.
    """

    samples: int = 16
    rate: float = 0.75

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if not 0 <= self.rate < 1:
            raise ValueError(f"rate must lie in [0, 1), not {self.rate}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The groups of all scenarios."""
        further = math.ceil(len(asked) / (1 - self.rate) - 1e-9) - len(asked)
        added = list(more(further)) if more is not None and further > 0 else []
        trajectories = await play([replace(asking, samples=self.samples) for asking in (*asked, *added)])
        await score(trajectories)
        return Experience(trajectories)


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


CPPO = GRPO.but(
    name="cppo",
    title="Completion Pruning Policy Optimisation",
    source="Lin et al., CPPO: Accelerating the Training of GRPO-Based Reasoning Models, arXiv:2503.22342",
    catalogue_ids=("cppo",),
    axes=("credit", "data", "system"),
    formula="keep the floor(G (1 - P)) samples of largest |A_i| of a group, of B / (1 - P) scenarios;  then GRPO",
    conventions={
        **GRPO.conventions,
        "pruning": "credit.rate P = 0.75 within each group; credit.over = batch takes the largest of the whole batch",
        "pruned samples": "weight 0, before any pass of the learner; credit.normaliser = all leaves denominators",
        "equal |A|": "the earlier sample stays",
        "advantages": "not normalised again",
        "refilled slots": "rollout.rate: as many more scenarios as keep the number of samples that are learnt from",
    },
    note="its saving is shown in decisions passed through the learner; in seconds there was none with the shipped "
    "model, where sampling takes most of a step: half of its samples were right after 54 processor seconds with GRPO, "
    "after 77 with it (one seed)",
    rollout=Refilled(samples=16, rate=0.75),
    credit=Pruned(of=GRPO.credit, rate=0.75),
)

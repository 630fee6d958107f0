"""Credit that differs between the places of a response: a plan and its solutions, the tag that ends a thought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hocket.core.method_columns import COMPRESSED
from hocket.credit.formulas import centred
from hocket.credit.group import GroupRelative
from hocket.segments import segment_count, segment_mean
from hocket.signals import counted_trajectories, returns
from hocket.stages import Credit
from hocket.types import Batch, GroupBy, Occurrences


def plan_values(value: Tensor, plan: Tensor, size: int) -> Tensor:
    """`V_p`, the mean return of the solutions of each of `size` plans, `[size]`."""
    return segment_mean(value, plan, size)


@dataclass(frozen=True)
class PlanAndSolution(Credit):
    """Plan decisions get `V_p - mean_p V_p`, solution decisions `R_i - mean_i R`: PTA-GRPO (arXiv 2510.01833).

    The paper rewards plans from which solving succeeds and does not give the estimator; this one is chosen here. V_p
    is the mean return of a plan's solutions, means are over the plans and over the solutions of a scenario. A plan is
    the first turn of a trajectory; trajectories that share it are its solutions, and it is credited once in each. A
    trajectory of one turn is a plan alone. With one solution per plan every decision gets the mean-centred outcome.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen, value, used = batch.occurrences, returns(batch), counted_trajectories(batch)
        turn = batch.turn[seen.decision]
        groups = GroupBy("scenario")(batch)
        plan = _first_turns(batch)
        own = centred(value[used], groups.index[used], groups.size)
        worth = plan_values(value[used], plan[used], batch.turns)
        chosen = torch.nonzero(segment_count(plan[used], batch.turns)).flatten()
        owner = torch.zeros(batch.turns, dtype=torch.long)
        owner[plan] = groups.index
        planned = torch.zeros(batch.turns, dtype=torch.float64)
        planned[chosen] = centred(worth[chosen], owner[chosen], groups.size)
        solved = torch.zeros(batch.trajectories, dtype=torch.float64)
        solved[used] = own
        first = turn == plan[seen.trajectory]
        return replace(seen, advantage=torch.where(first, planned[turn], solved[seen.trajectory]))


def _first_turns(batch: Batch) -> Tensor:
    """The turn of each trajectory's first decision, `[N]`; turn 0 for one without decisions."""
    seen = batch.occurrences
    starts = (batch.last() - batch.lengths() + 1).clamp(min=0)
    if not len(seen):
        return torch.zeros(batch.trajectories, dtype=torch.long)
    return batch.turn[seen.decision][starts.clamp(max=len(seen) - 1)]


@dataclass(frozen=True)
class TagBonus(Credit):
    """The advantages of `base`, and at the tag that ends a right thought `c (1 - kept/original)`, or `-c`.

    LC-R1 (arXiv 2506.14755). The bonus is for the share of the thought that was cut away after the answer was found;
    where the thought ends before it ever reached the answer the tag loses `penalty`, so that thoughts stay sufficient.
    Reads column `thinking`, which `hocket.rollout.CompressedThoughts` writes for right trajectories; the others have
    no bonus.

    Attributes:
        base: credit for the whole. bonus: the c for what was cut. penalty: the c for a thought without the answer.
    """

    base: Credit = GroupRelative(scale=None)
    bonus: float = 1.0
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.base.pairs:
            raise ValueError("base yields pairs; set it to a credit that gives advantages")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = self.base(batch)
        advantage, lengths = seen.advantage.double().clone(), batch.lengths()
        starts = (torch.cumsum(lengths, 0) - lengths).tolist()
        for row, thinking in enumerate(COMPRESSED.rows(batch)):
            if thinking is not None and int(thinking["tag"]) < int(lengths[row]):
                place = starts[row] + int(thinking["tag"])
                if seen.weight[place] != 0:
                    advantage[place] += self.at_tag(thinking)
        return replace(seen, advantage=advantage)

    def at_tag(self, thinking: dict[str, Any]) -> float:
        """What the tag of one right trajectory earns."""
        if not thinking["reached"]:
            return -self.penalty
        return self.bonus * (1 - int(thinking["kept"]) / max(int(thinking["original"]), 1))

"""PVPO: GRPO whose baseline was measured beforehand with the reference policy (Feng et al., arXiv:2508.21104).

`RememberedBaseline` subtracts a scenario's mean return under the reference, sampled at its first visit, so that groups
of any size and of equal rewards teach. `WithReference` of `hocket.rollout.reference` also drops what the reference
always solves and shows a demonstration of what nobody solves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.segments import segment_count, segment_mean
from hocket.core.signals import counted_trajectories, reference_trajectories, returns
from hocket.methods.base.grpo import GRPO
from hocket.rollout.reference import WithReference
from hocket.stages import Credit, State


@dataclass(frozen=True)
class RememberedBaseline(Credit):
    """`A_i = R_i - V(x)`, V the mean return of the reference's samples of the scenario: PVPO (arXiv 2508.21104).

    Stateful: V is remembered by the scenario's name until samples of source `baseline` of it come again, so that it
    need be measured only once, beforehand. It does not depend on the samples it is subtracted from, so the gradient
    stays unbiased for groups of any size. Trajectories of a scenario whose V is unknown are left out with weight 0.
    """

    needs_baseline: ClassVar[bool] = True

    def init(self) -> State:
        """No scenario is known."""
        return {"values": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        """The batch's occurrences with advantages `[E]` float64, and the values with those of this batch."""
        seen, value, measured = batch.occurrences, returns(batch), reference_trajectories(batch)
        names = batch.names["scenario"]
        count = segment_count(batch.scenario[measured], len(names)).tolist()
        means = segment_mean(value[measured], batch.scenario[measured], len(names)).tolist()
        fresh = {name: mean for name, mean, number in zip(names, means, count, strict=True) if number}
        values: dict[str, float] = {**state["values"], **fresh}
        known = torch.tensor([name in values for name in names])[batch.scenario]
        baseline = torch.tensor([values.get(name, 0.0) for name in names], dtype=torch.float64)[batch.scenario]
        learnt = known & ~measured & counted_trajectories(batch)
        advantage = torch.where(learnt, value - baseline, 0.0)[seen.trajectory]
        weight = torch.where(known[seen.trajectory], seen.weight, torch.zeros_like(seen.weight))
        return replace(seen, advantage=advantage, weight=weight), {"values": values}


PVPO = GRPO.but(
    name="pvpo",
    title="Pre-estimated Value-based Policy Optimisation",
    source="Feng et al., arXiv:2508.21104",
    catalogue_ids=("pvpo",),
    axes=("rollout", "credit", "data"),
    formula="A_i = R_i - 1/M sum_m R(reference's sample m of the scenario), loss as GRPO",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "group of one": "as any other: the baseline is not its own",
        "constant group": "as any other: the reference may differ",
        "baseline": "M = rollout.references samples of the policy before training, at a scenario's first visit",
        "missing baseline": "the scenario's trajectories are left out",
        "solved": "scenarios on which every reference sample earns the same, at least 1, are dropped",
        "unsolved": "while nobody has earned anything, the scenario's demonstration, if it has one, replaces a sample",
    },
    rollout=WithReference(samples=8, references=8, once=True, solved=1.0, inject=True),
    credit=RememberedBaseline(),
)

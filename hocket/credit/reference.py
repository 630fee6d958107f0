"""Credit against what the policy as it was before training would have earned.

Reads trajectories of source `baseline`, which `hocket.rollout.WithReference` has the reference play.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.credit.group import GroupRelative
from hocket.segments import segment_count, segment_mean
from hocket.signals import counted_trajectories, returns
from hocket.stages import Credit, State
from hocket.types import Batch, Occurrences


def baselines(batch: Batch) -> Tensor:
    """Which trajectories are of source `baseline`, `[N]` bool."""
    names = batch.names["source"]
    return batch.source == (names.index("baseline") if "baseline" in names else -1)


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
        seen, value, measured = batch.occurrences, returns(batch), baselines(batch)
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


def margin(value: Tensor, reference: Tensor, low: float, high: float) -> Tensor:
    """`clip(R - R_ref, low, high)`, same shape as both (AAPO's momentum)."""
    return (value - reference).clamp(low, high)


@dataclass(frozen=True)
class ReferenceMargin(Credit):
    """`A_i = credit_i + clip(R_i - R_ref_i, low, high)`: AAPO (arXiv 2505.14264), "advantage momentum".

    R_ref_i is the return of a sample that the reference drew for the same scenario: in assignment order the i-th
    counted sample meets the i-th baseline, starting over when there are fewer. So a group of equal rewards has a signal
    where it beats or trails the reference. Without a baseline of its scenario a sample gets no margin.

    Attributes:
        credit: the advantage that the margin is added to.
        low, high: bounds of the margin; the release has -0.2 and 0.28. Both 0, and only `credit` is left.
    """

    credit: Credit = GroupRelative()
    low: float = -0.2
    high: float = 0.28

    needs_baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.low <= 0 <= self.high:
            raise ValueError(f"low and high must satisfy low <= 0 <= high, not {self.low} and {self.high}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        given = self.credit(batch)
        added = self._margins(batch)[given.trajectory]
        return replace(given, advantage=given.advantage + added)

    def _margins(self, batch: Batch) -> Tensor:
        """The margin of each trajectory, `[N]`; 0 for baselines, what does not count and what has no baseline."""
        value, measured, counted = returns(batch), baselines(batch), counted_trajectories(batch)
        found = torch.zeros(batch.trajectories, dtype=torch.float64)
        rows = torch.argsort(batch.order).tolist()
        scenario, is_baseline, counts = batch.scenario.tolist(), measured.tolist(), counted.tolist()
        references: dict[int, list[int]] = {}
        own: dict[int, list[int]] = {}
        for row in rows:
            if is_baseline[row]:
                references.setdefault(scenario[row], []).append(row)
            elif counts[row]:
                own.setdefault(scenario[row], []).append(row)
        for name, members in own.items():
            others = references.get(name)
            if others:
                met = [others[place % len(others)] for place in range(len(members))]
                found[members] = margin(value[members], value[met], self.low, self.high)
        return found

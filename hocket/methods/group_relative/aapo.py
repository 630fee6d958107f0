"""AAPO: GRPO with a margin over what the reference model earns on the same prompt (Xiong et al., arXiv:2505.14264).

To the group's advantage it adds the clipped difference to a sample of the reference (`ReferenceMargin`), so a group of
equal rewards still teaches. The loss is a plain policy gradient: no ratio, no clip, no KL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.signals import counted_trajectories, reference_trajectories, returns
from hocket.credit.group import GroupRelative
from hocket.methods.base.grpo import GRPO
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.rollout.reference import WithReference
from hocket.stages import Credit


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
        value, measured, counted = returns(batch), reference_trajectories(batch), counted_trajectories(batch)
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


AAPO = GRPO.but(
    name="aapo",
    title="Advantage-Augmented Policy Optimisation",
    source="Xiong et al., arXiv:2505.14264",
    catalogue_ids=("aapo",),
    formula="A_i' = A_i + clip(R_i - R_ref_i, -0.2, 0.28),  L = -1/sum_i n_i sum_i sum_t A_i' log pi_it",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "no ratio; the margin is clipped to [-0.2, 0.28]",
        "KL": "none, as in the paper",
        "group of one": "the margin alone",
        "constant group": "the margin alone",
        "reference": "the policy as it was before training; its i-th sample meets the i-th of the policy",
    },
    rollout=WithReference(samples=8, references=8),
    credit=ReferenceMargin(credit=GroupRelative()),
    objective=PolicyGradient(aggregate="token-mean"),
)

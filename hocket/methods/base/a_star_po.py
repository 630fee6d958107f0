"""A*-PO: optimal values are measured with the reference, then log-ratios are fitted to advantages over them.

Brantley et al., arXiv:2505.20686; TRL 1.16, A2POTrainer. First stage: at a scenario's first visit the reference answers
it several times, and `V* = b1 log mean exp(R / b1)` is remembered (`OptimalValueMargin`). Second stage: one answer of
the policy, and least squares of its log-ratio on `R - V*` (`AdvantageRegression`), without clip or group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.signals import counted_trajectories, reference_trajectories, returns
from hocket.methods.base.conventions import COMMON
from hocket.objectives.regression import AdvantageRegression
from hocket.recipe import Recipe
from hocket.rollout.reference import WithReference
from hocket.stages import Credit, State


@dataclass(frozen=True)
class OptimalValueMargin(Credit):
    """`A_i = R_i - V*(x)`, `V* = temperature log mean_m exp(R_m / temperature)` over the reference's samples of x.

    Stateful: V* is remembered by the scenario's name until samples of source `baseline` of it come again. Trajectories
    of a scenario whose V* is unknown are left out with weight 0.

    Attributes:
        temperature: beta_1, above 0; near 0 V* is the best of the samples, and without end their mean.
        hopeless: learn from scenarios whose reference samples earned nothing, all together.
    """

    temperature: float = 0.5
    hopeless: bool = False

    needs_baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be above 0, not {self.temperature}")

    def init(self) -> State:
        """No scenario is known."""
        return {"values": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        """The batch's occurrences with advantages `[E]` float64, and the values with those of this batch."""
        occurrences, value, measured = batch.occurrences, returns(batch), reference_trajectories(batch)
        values: dict[str, float | None] = dict(state["values"])
        for number, name in enumerate(batch.names["scenario"]):
            rewards = value[measured & (batch.scenario == number)]
            if len(rewards):
                soft = self.temperature * ((rewards / self.temperature).logsumexp(0) - math.log(len(rewards)))
                values[name] = float(soft) if self.hopeless or float(rewards.sum()) != 0 else None
        by_name = [values.get(name) for name in batch.names["scenario"]]
        known = torch.tensor([value is not None for value in by_name])[batch.scenario]
        optimal = torch.tensor([value or 0.0 for value in by_name], dtype=torch.float64)[batch.scenario]
        learnt = known & ~measured & counted_trajectories(batch)
        advantage = torch.where(learnt, value - optimal, 0.0)[occurrences.trajectory]
        weight = torch.where(learnt[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
        return replace(occurrences, advantage=advantage, weight=weight), {"values": values}


A_STAR_PO = Recipe(
    name="a-star-po",
    title="Optimal advantage regression",
    source="Brantley et al., arXiv:2505.20686; TRL 1.16, A2POTrainer",
    family="group-relative",
    axes=("rollout", "credit", "objective"),
    formula="L = 1/N sum_i (R_i - V*(x_i) - b2 log pi(y_i)/ref(y_i))^2,  V* = b1 log mean_m exp(R_m / b1),  y_m ~ ref",
    conventions={
        **COMMON,
        "aggregation": "log-ratios summed over a trajectory's decisions, mean over trajectories",
        "b1": "0.5 (credit.temperature)",
        "b2": "0.001 (objective.temperature)",
        "value": "8 samples of the policy before training at a scenario's first visit; TRL and the paper measure all "
        "scenarios beforehand",
        "hopeless": "scenarios on which the reference's samples earned nothing teach nothing (credit.hopeless)",
        "samples": "1 per prompt",
    },
    rollout=WithReference(samples=1, references=8, once=True),
    credit=OptimalValueMargin(),
    objective=AdvantageRegression(temperature=1e-3, against="reference", coefficient=1.0),
)

"""DGPO: reward where the student is right, a teacher's guidance where it is wrong (distillation-guided, abstract).

A small model that begins with lessons from a teacher's right answers goes on by reinforcement learning; where a rollout
fails, the divergence to the teacher on the student's own tokens is added, so that there is something to learn from
before anything is ever right, and nothing that holds the student back once it is. The teacher is `--teacher MODEL`.
That guidance falls on failures only is recalled; the abstract speaks of continued guidance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.batch import Batch
from hocket.core.schedules import Setting, value_at
from hocket.credit.units import trajectory_units
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import mean, weights
from hocket.objectives.divergence import ExactKL
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class GuidedWhereFailed(ExactKL):
    """Adds coefficient * KL(student || teacher), exact at each decision, where a trajectory earned less than `passed`.

    The teacher is the learner's reference. Nothing is added at decisions of trajectories that passed, nor where all is
    forgiven (coefficient 0); the mean is over all trajectories, so the fewer fail the weaker is the guidance.

    Attributes:
        passed: the reward from which a trajectory counts as right. The others are `ExactKL`'s.
    """

    coefficient: Setting = 1.0
    passed: float = 1.0

    learns_from_teacher: ClassVar[bool] = True

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        exact = now.get(Quantity.KL_EXACT)[seen.decision]
        units = trajectory_units(batch)
        failed = torch.zeros(batch.trajectories, dtype=torch.bool)
        failed[units.trajectory] = units.counted & (units.value < self.passed)
        guided = failed[seen.trajectory]
        coefficient = value_at(self.coefficient, batch.progress)
        # Not times 0: where nothing guides, not even an infinite divergence may.
        value = torch.where(guided, coefficient * exact, torch.zeros_like(exact))
        metrics = {
            "teacher/kl": mean(exact.detach(), seen.weight != 0),
            "teacher/guided": failed.double().mean(),
        }
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=exact.dtype), metrics=metrics)


DGPO_DISTILLATION = GRPO.but(
    name="dgpo-distillation",
    title="Distillation-guided policy optimisation: a teacher where the student fails",
    source="Can Compact Language Models Search Like Agents? Distillation-Guided Policy Optimization for Preserving "
    "Agentic RAG Capabilities, abstract",
    catalogue_ids=("dgpo-distillation",),
    axes=("objective", "data"),
    formula="L = L_GRPO + beta mean_{i, t} 1[R_i < 1] KL(student(.|s_t) || teacher(.|s_t))",
    task="lookup",
    conventions={
        **GRPO.conventions,
        "teacher": "the learner's reference: `--teacher MODEL`, or a run; it has the student's tokenizer",
        "divergence": "exact over the vocabulary, at the student's own tokens, the student's first (mode-seeking)",
        "where": "trajectories that earned less than 1 (regularisers.0.passed)",
        "beta": "1 (regularisers.0.coefficient), chosen here",
        "cold start": "a phase of `sft` before it (`--lessons`, or a plan); not part of the recipe",
        "demonstrations": "it is for few of them: on lookup, whose script shows as many as one likes, as many more "
        "steps of lessons come to as much",
    },
    regularisers=(GuidedWhereFailed(),),
)

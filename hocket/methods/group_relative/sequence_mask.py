"""Off-policy sequence masking: GRPO that forgets wrong answers it would hardly give any more (DeepSeek-V3.2).

A wrong answer whose tokens have become much less likely since it was sampled pushes the policy about where it no longer
is. Such answers are left out; right ones stay, however old.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import trajectory_means
from hocket.objectives.ratios import log_ratios
from hocket.stages import Objective
from hocket.types import Evaluation, Terms


def drifted(log_ratio: Tensor, advantage: Tensor, batch: Batch, threshold: float) -> Tensor:
    """Occurrences `[E]` of negative advantage in answers with mean_t log(pi_old / pi) above `threshold`, in nats."""
    mean = trajectory_means(-log_ratio, batch)[batch.occurrences.trajectory]
    return (advantage < 0) & (mean > threshold)


@dataclass(frozen=True)
class WithoutDrifted(Objective):
    """The terms of `of`, 0 where `drifted`; denominators count all (arXiv:2512.02556).

    Attributes:
        threshold: delta, in nats per decision; the report gives no number.
    """

    of: Objective
    threshold: float = 0.2

    couples: ClassVar[Level] = Level.TRAJECTORY
    # A decision of advantage 0 still enters its answer's mean.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.threshold < 0:
            raise ValueError(f"threshold must be at least 0, not {self.threshold}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, seen = self.of(now, batch), batch.occurrences
        left_out = drifted(log_ratios(now, batch).detach(), seen.advantage, batch, self.threshold)
        counted = seen.weight != 0
        share = (left_out & counted).double().sum() / counted.double().sum().clamp(min=1)
        value = torch.where(left_out, torch.zeros_like(terms.value), terms.value)
        return replace(terms, value=value, unit=self.couples, metrics={**terms.metrics, "sequence/masked": share})


GRPO_SEQUENCE_MASK = GRPO.but(
    name="grpo-sequence-mask",
    title="GRPO with off-policy sequence masking",
    source="DeepSeek-V3.2, arXiv:2512.02556; TRL 1.16 (off_policy_mask_threshold)",
    formula=GRPO.formula + ";  an answer counts 0 where A_i < 0 and mean_t log(pi_old / pi) > delta",
    conventions={
        **GRPO.conventions,
        "delta": "objective.threshold = 0.2 nats per decision, chosen here; the report gives none",
        "old policy": "the one that sampled; denominators count masked answers too",
        "updates per batch": "4 mini-batches, chosen here; with one nothing has drifted and it is GRPO",
    },
    note="whether answers drift past delta within a batch depends on the learning rate; not seen at the default one",
    objective=WithoutDrifted(of=GRPO.objective),
    **{"update.minibatches": 4},
)

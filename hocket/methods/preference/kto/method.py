"""KTO: learning from thumbs up and down, with people's aversion to losses (Ethayarajh et al., arXiv:2402.01306).

No pairs: every answer carries a label. Its implicit reward is measured from an estimate of the divergence between
policy and reference, made of answers to other prompts (`MismatchedDivergence`), and goes through a sigmoid, so what is
far to either side has no pull (`Unpaired` of `hocket.objectives.unpaired_answers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.batch import Batch
from hocket.core.columns import MISMATCHED, Column
from hocket.methods.base.conventions import COMMON
from hocket.methods.preference.kto.labels import Desirability
from hocket.objectives.aggregate import counted_lengths, trajectory_sums
from hocket.objectives.ratios import recorded
from hocket.objectives.unpaired_answers import SHIFT, Unpaired
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Labelled
from hocket.stages import Shaping


@dataclass(frozen=True)
class MismatchedDivergence(Shaping):
    """Writes the shift beta max(0, mean log pi(y') - log ref(y')) over mismatched answers y' (KTO, eq. 7 and 3.4).

    The log-probs are those as the step began. In a batch without mismatched answers the mean is over all of them, which
    estimates the divergence for the policy's own samples and is too large for recorded ones.

    Attributes:
        beta: as the loss's.
    """

    beta: float = 0.1

    reads: ClassVar[frozenset[Column]] = frozenset({Column.PROXIMAL, Column.REFERENCE})

    def __call__(self, batch: Batch) -> Batch:
        gap = recorded(batch, "proximal").double() - recorded(batch, "reference").double()
        drift = trajectory_sums(gap[batch.occurrences.decision], batch)
        counted = counted_lengths(batch) > 0
        other = torch.tensor([bool(one) for one in MISMATCHED.rows(batch)]) & counted
        used = other if bool(other.any()) else counted
        mean = float(drift[used].sum() / used.sum().clamp(min=1))
        return batch.but(info={**batch.info, SHIFT.name: [self.beta * max(0.0, mean)] * batch.trajectories})


LABELLED = {
    **COMMON,
    "aggregation": "log-ratios summed over an answer's decisions, mean over answers",
    "labels": "a score of at least 0.5 is desirable (credit.least)",
    "balance": "objective.desirable and objective.undesirable, 1 each; the paper keeps their ratio times that of the "
    "numbers of labels between 1 and 4/3",
    "reference": "the policy before training",
}
"""What recipes on labelled answers agree on."""

KTO = Recipe(
    name="kto",
    title="Kahneman-Tversky Optimisation",
    source="Ethayarajh et al., arXiv:2402.01306, eq. 8",
    family="preference",
    axes=("objective", "data"),
    formula="L = mean_i w_i (1 - sigmoid(s_i beta (d_i - z))),  z = max(0, mean_j d(y_j | x_{j+1})),  "
    "d = log pi(y)/ref(y)",
    task="graded-sums",
    conventions={
        **LABELLED,
        "divergence": "by each step's answers under the next prompt of the step, at the weights as the step began",
    },
    rollout=Labelled(mismatched=True),
    shaping=(MismatchedDivergence(beta=0.1),),
    credit=Desirability(),
    objective=Unpaired(beta=0.1),
)

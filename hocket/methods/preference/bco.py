"""BCO: a classifier of good and bad answers whose logit is the policy's reward (Jung et al., arXiv:2404.04656).

Rewards are measured from the running mean of all rewards seen (`RunningReward`), which tightens the bound on DPO's
loss, and the loss is logistic (`Unpaired`). The paper's weights for bad answers of other prompts are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.methods.preference.kto.method import KTO, LABELLED
from hocket.objectives.aggregate import counted_lengths, trajectory_sums
from hocket.objectives.ratios import recorded
from hocket.objectives.unpaired_answers import SHIFT, Unpaired
from hocket.rollout.demonstrations import Labelled
from hocket.stages import Shaping, State


@dataclass(frozen=True)
class RunningReward(Shaping):
    """Writes as shift the mean of all implicit rewards so far, this batch's included (BCO, section 3.2).

    Stateful. Every answer counts once, as in TRL; the paper halves the means of good and of bad ones, which is the same
    where both are as many.

    Attributes:
        beta: as the loss's.
    """

    beta: float = 0.1

    reads: ClassVar[frozenset[Column]] = frozenset({Column.PROXIMAL, Column.REFERENCE})

    def init(self) -> State:
        """Nothing seen."""
        return {"mean": 0.0, "count": 0.0}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        gap = recorded(batch, "proximal").double() - recorded(batch, "reference").double()
        reward = self.beta * trajectory_sums(gap[batch.occurrences.decision], batch)
        seen = reward[counted_lengths(batch) > 0]
        count = state["count"] + len(seen)
        mean = (state["mean"] * state["count"] + float(seen.sum())) / max(count, 1.0)
        state = {"mean": mean, "count": count}
        return batch.but(info={**batch.info, SHIFT.name: [state["mean"]] * batch.trajectories}), state


BCO = KTO.but(
    name="bco",
    title="Binary Classifier Optimisation",
    source="Jung et al., arXiv:2404.04656, eq. 12",
    formula="L = -mean_i log sigmoid(s_i (beta d_i - delta)),  delta the running mean of beta d",
    conventions={**LABELLED, "delta": "with this batch's rewards in it, at the weights as the step began"},
    rollout=Labelled(),
    shaping=(RunningReward(beta=0.1),),
    objective=Unpaired(beta=0.1, form="logistic"),
)

"""OPSD: a model teaches itself with the solution before its eyes (Zhao et al., arXiv:2601.18734).

The student answers the plain prompt. The teacher is the policy before training; it reads the same tokens behind a
prompt that shows the solution, and the distributions over all tokens are compared. Where `sdft` reinforces sampled
tokens by the current policy's log-ratio, this is the exact divergence, and its teacher stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hocket.core.batch import Batch
from hocket.core.divergences import DivergencePart, JensenShannon, ViewedDivergencePart
from hocket.methods.base.distillation import GKD, Distillation
from hocket.methods.base.self_distillation import PRIVILEGED_PROMPT, PrivilegedPrompts


def behind_privileged(batch: Batch) -> Batch:
    """The batch with the privileged prompt in the place of every trajectory's first observation, where it has one."""
    prompts, observation = PRIVILEGED_PROMPT.read(batch, "self-distillation"), list(batch.observation)
    occurrences = batch.occurrences
    # Occurrences are in order of time, so the last one written of a trajectory is its first.
    backwards = (column.flip(0).tolist() for column in (occurrences.trajectory, batch.turn[occurrences.decision]))
    for trajectory, turn in dict(zip(*backwards, strict=True)).items():
        if prompts[trajectory] is not None:
            observation[turn] = np.array(prompts[trajectory], np.int64)
    return batch.but(observation=observation)


@dataclass(frozen=True)
class PrivilegedDistillation(Distillation):
    """`Distillation` from the reference behind the privileged prompt."""

    @property
    def learns_from_teacher(self) -> bool:  # type: ignore[override]
        """No other model is needed."""
        return False

    @property
    def policy_parts(self) -> tuple[DivergencePart, ...]:
        """The divergence, and what the reference reads."""
        return (ViewedDivergencePart(self.divergence, view=behind_privileged),)


OPSD = GKD.but(
    name="opsd",
    title="On-policy self-distillation: the policy with the solution in its prompt teaches itself",
    source="Zhao et al., Self-Distilled Reasoner, arXiv:2601.18734, and the authors' code",
    formula="L = 1/sum_i n_i sum_i sum_t D_beta(ref(. | x, y*, a_i<t) || p(. | x, a_i<t)),  a_i ~ p(. | x)",
    conventions={
        **GKD.conventions,
        "teacher": "the policy before training, behind the prompt with y*; `--teacher` may name a better model",
        "y*": "the demonstration, else the answer, on a line under the prompt (rollout.lead stands before it)",
        "beta": "0, the forward KL (objective.divergence.beta), as in the authors' runs",
        "lambda": "1: the student writes everything",
    },
    note="without the authors' cut of single tokens' terms",
    rollout=PrivilegedPrompts(),
    objective=PrivilegedDistillation(JensenShannon(beta=0.0)),
)

"""Self-distillation: the policy itself is the teacher, behind a prompt that tells more (SDFT, arXiv 2601.19897).

The student answers the plain prompt. The teacher reads the same tokens behind the prompt with a line under it: the
demonstration, or the answer. What it finds likelier there is reinforced, token by token, so that what the line says is
learnt where nothing says it. Teacher and student share their weights; the line is never learnt from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import Column, InfoColumn
from hocket.core.keys import Key
from hocket.methods.base.distillation import ON_POLICY_DISTILLATION, TeacherLogRatio
from hocket.rollout.demonstrations import demonstrated
from hocket.stages import Grade, LedgerView, More, Play, Policy, Rollout
from hocket.types import Assignment, Experience, Quantity

PRIVILEGED_PROMPT = InfoColumn("privileged_prompt", "Token ids of the prompt with the line that the teacher reads.")


def privileged_log_probs(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    """Log-probs of the recorded actions behind the privileged prompts, `[T]`; 0 for decisions of other policies."""
    prompts, observation = PRIVILEGED_PROMPT.read(batch, "self-distillation"), list(batch.observation)
    occurrences = batch.occurrences
    # Occurrences are in order of time, so the last one written of a trajectory is its first.
    backwards = (column.flip(0).tolist() for column in (occurrences.trajectory, batch.turn[occurrences.decision]))
    turns = dict(zip(*backwards, strict=True))
    for trajectory, turn in turns.items():
        if prompts[trajectory] is not None:
            observation[turn] = np.array(prompts[trajectory], np.int64)
    return policy.evaluate(batch.but(observation=observation), {Quantity.LOGP}, decisions).logp.double()


PRIVILEGED = Annotator(
    "privileged",
    "Log-probs as the step begins, behind the privileged prompt, [T].",
    privileged_log_probs,
)


@dataclass(frozen=True)
class PrivilegedPrompts(Rollout):
    """`samples` answers per scenario, with the prompt that the teacher reads them behind.

    A line under the prompt tells the scenario's demonstration, else its answer, behind `lead`. To encode it as the
    player does, one token is sampled behind it, which is discarded.

    Raises:
        ConfigurationError: on a call, for a scenario with neither, and where samples of a scenario have no turn.
    """

    samples: int = 4
    lead: str = "Answer: "

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The student's answers, scored; the teacher's prompts are in their `info`."""
        encoded = await play([self._privileged(asking) for asking in asked])
        prompts = {each.scenario.id: each.turns[0].observation.tolist() for each in encoded if each.turns}
        trajectories = await play([replace(asking, samples=self.samples) for asking in asked])
        for trajectory in trajectories:
            if trajectory.scenario.id in prompts:
                PRIVILEGED_PROMPT.write(trajectory, prompts[trajectory.scenario.id])
        await score(trajectories)
        return Experience(trajectories, discarded=encoded)

    def _privileged(self, asking: Assignment) -> Assignment:
        line = f"{self.lead}{demonstrated(asking.scenario).metadata['demonstration']}"
        hint = line if asking.hint is None else f"{asking.hint}\n{line}"
        decoding = replace(asking.decoding, max_tokens=1)
        return replace(asking, samples=1, hint=hint, decoding=decoding, source="baseline")


@dataclass(frozen=True)
class PrivilegedLogRatio(TeacherLogRatio):
    """`TeacherLogRatio` whose teacher is the policy itself behind the privileged prompt."""

    reads: ClassVar[frozenset[Column]] = frozenset({PRIVILEGED, PRIVILEGED_PROMPT, Column.BEHAVIOUR})
    learns_from_teacher: ClassVar[bool] = False

    def teacher(self, batch: Batch) -> Tensor:
        return PRIVILEGED.read(batch, type(self).__name__)


SDFT = ON_POLICY_DISTILLATION.but(
    name="sdft",
    title="Self-distillation fine-tuning: the policy behind a prompt that tells more teaches itself",
    source="Shenfeld et al., Self-Distillation Enables Continual Learning, arXiv:2601.19897; TRL 1.16, SDFTTrainer",
    formula="A_it = log p_old(a_it | x, c, a_i<t) - log p_old(a_it | x, a_i<t),  "
    "L = -1/sum_i n_i sum_i sum_t r_it A_it",
    conventions={
        **ON_POLICY_DISTILLATION.conventions,
        "teacher": "the policy as the step begins, behind the prompt with c; the paper averages weights over steps",
        "c": "the demonstration, else the answer, on a line under the prompt (rollout.lead stands before it)",
        "divergence": "reverse KL at the sampled token (TRL's distillation_mode sampled_token)",
    },
    rollout=PrivilegedPrompts(),
    credit=PrivilegedLogRatio(),
)

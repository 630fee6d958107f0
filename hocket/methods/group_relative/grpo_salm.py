"""GRPO for speech-aware language models: open answers about sounds are paid by their BLEU against the reference.

Elmakies et al., arXiv:2509.16990. `grpo-salm-mixed` has the reference itself as a member of every group (`WithExpert`):
its BLEU is 1, so a group without one good sample still has a gradient, towards the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.opinions import Opinions
from hocket.rewards.similarity import bleu
from hocket.rewards.verifiers import EXTRACTIONS, Extraction, check_extraction
from hocket.rollout.experts import WithExpert
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class ReferenceBleu(Reward):
    """BLEU of what is extracted from a response against the scenario's answer, in 0..1; 0 where there is nothing.

    A scenario without an answer has no opinion.
    """

    extract: Extraction = "answer-tag"
    name: str = "bleu"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_extraction(self.extract)

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(item.text, item.scenario) for item in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        if scenario.answer is None:
            return None
        answer = EXTRACTIONS[self.extract](text) or ""
        return bleu(answer, str(scenario.answer)) if answer.strip() else 0.0


GRPO_SALM = GRPO_KL.but(
    name="grpo-salm",
    title="GRPO with BLEU for speech-aware language models",
    source="Elmakies et al., GRPO for speech-aware language models, arXiv:2509.16990",
    catalogue_ids=("grpo-salm",),
    axes=("reward", "policy", "rollout"),
    task="tones?kinds=notes",
    formula="R = BLEU(y, y*),  A_i = (R_i - mean_g R)/(std_g R + eps),  clipped, KL k3 0.04;  mixed: y* is a member",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04 (chosen here)",
        "BLEU": "of one sentence by sacrebleu, in 0..1, with orders that the sentence has",
    },
    note="shown on recordings of notes, transcribed by their names; the paper has spoken questions and translation",
    rewards=(ReferenceBleu(),),
)

GRPO_SALM_MIXED = GRPO_SALM.but(
    name="grpo-salm-mixed",
    title="GRPO with BLEU, and the reference in every group",
    conventions={
        **GRPO_SALM.conventions,
        "reference": "metadata['demonstration'], else the answer as text: one of a group's 8 members",
        "reference's ratio": "nobody knows what it was sampled by, so the policy before the update stands in: ratio 1 "
        "at the first update (chosen here)",
    },
    requires=(Requirement.DEMONSTRATIONS,),
    rollout=WithExpert(samples=8, experts=1),
)

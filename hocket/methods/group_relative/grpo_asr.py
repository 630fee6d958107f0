"""GRPO for speech recognition: a language model that hears is paid for its transcripts by the word errors in them.

Shivakumar et al., arXiv:2509.01939. Lessons teach each next word behind the right ones; the reward is of what the model
writes by itself, so it counts hallucinated insertions as errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import EXTRACTIONS, Extraction, check_extraction
from hocket.rewards.word_errors import errors, word_errors
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

Measure = Literal["words", "exact", "characters"]


@dataclass(frozen=True)
class Transcript(Reward):
    """How well a transcript fits the scenario's answer: minus its word error rate, by default.

    A response without a transcript counts as an empty one. A scenario without an answer has no opinion.

    Attributes:
        measure: `words` is minus the word error rate, which has no lower bound; `exact` 1 for the same words, else 0;
            `characters` minus the edit distance in characters, over those of the answer.
    """

    measure: Measure = "words"
    extract: Extraction = "answer-tag"
    name: str = "transcript"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_extraction(self.extract)
        if self.measure not in ("words", "exact", "characters"):
            raise ValueError(f"measure must be words, exact or characters, not {self.measure!r}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(item.text, item.scenario) for item in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        if scenario.answer is None:
            return None
        due, transcript = str(scenario.answer), EXTRACTIONS[self.extract](text) or ""
        if self.measure == "exact":
            return float(due.split() == transcript.split())
        wrong = word_errors(due, transcript) if self.measure == "words" else errors(due, transcript)
        return 0.0 - wrong.rate


GRPO_ASR = GRPO_KL.but(
    name="grpo-asr",
    title="GRPO for speech recognition",
    source="Shivakumar et al., Group Relative Policy Optimization for Speech Recognition, arXiv:2509.01939",
    catalogue_ids=("grpo-asr",),
    axes=("reward", "policy"),
    task="tones?kinds=notes",
    formula="R = -(S + D + I)/n of words,  A_i = (R_i - mean_g R)/(std_g R + eps),  clipped, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04 (chosen here)",
        "reward": "minus the word error rate, below -1 where insertions are many; chosen here: the abstract "
        "names rules and not how they are combined. rewards.0.measure = exact, characters are others",
        "words": "parted by white space, as they are: no normalisation of case or punctuation",
    },
    note="shown on recordings of notes, transcribed by their names; the paper has speech",
    rewards=(Transcript(),),
)

"""Qwen3 in Korean: GRPO whose rewards count only where rule and judge agree (arXiv:2508.10355).

`Gated` of `hocket.rewards.combine` asks both verdicts; behind the gate, `LanguageShare` pays the share of the target
language in the thoughts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO
from hocket.rewards.combine import Gated
from hocket.rewards.judging import JudgedBy
from hocket.rewards.verifiers import ExactMatch
from hocket.stages import Reward
from hocket.types import Trajectory


def thoughts(text: str) -> str:
    """What stands in `<think>` blocks, an open one included; without any, what stands before `<answer>`."""
    found = _THOUGHTS.findall(text)
    return " ".join(found) if found else text.split("<answer>")[0]


Part = Literal["thoughts", "all"]


_THOUGHTS = re.compile(r"<think>(.*?)(?:</think>|$)", re.DOTALL)


def script_share(text: str, script: str) -> float | None:
    """The share of letters whose Unicode name begins with `script` (HANGUL, LATIN, CYRILLIC); None without letters."""
    letters = [letter for letter in text if letter.isalpha()]
    if not letters:
        return None
    return sum(unicodedata.name(letter, "").startswith(script.upper()) for letter in letters) / len(letters)


def vocabulary_share(text: str, words: frozenset[str]) -> float | None:
    """The share of words that belong to a vocabulary, in any case; None without words."""
    said = text.split()
    return sum(word.strip(".,;:!?").lower() in words for word in said) / len(said) if said else None


@dataclass(frozen=True)
class LanguageShare(Reward):
    """The share of a text that is in the target language: of letters by script, or of words by vocabulary.

    A language-consistency reward as in DeepSeek-R1 (arXiv 2501.12948), here for the thoughts (Qwen3 in Korean, arXiv
    2508.10355). No opinion where there is nothing to count.

    Attributes:
        script: the script's name in Unicode. words: the target vocabulary, in lower case; the script is then not read.
        part: the `thoughts` alone or `all`.
    """

    script: str = "HANGUL"
    words: tuple[str, ...] = ()
    part: Part = "thoughts"
    name: str = "language"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.share(trajectory.text) for trajectory in trajectories]

    def share(self, text: str) -> float | None:
        """The share in one text."""
        said = thoughts(text) if self.part == "thoughts" else text
        return vocabulary_share(said, frozenset(self.words)) if self.words else script_share(said, self.script)


RIGHT = (
    "Here are a question, its right answer and a response. Does the response come to the right answer?\n\n"
    "Question:\n{prompt}\n\nRight answer: {answer}\n\nResponse:\n{text}\n"
)


QWEN3_KOREAN = GRPO.but(
    name="qwen3-korean",
    title="Rule and judge must agree; thoughts in the target language",
    source="Making Qwen3 Think in Korean with Reinforcement Learning, arXiv:2508.10355 (the gate is chosen here)",
    catalogue_ids=("qwen3-korean",),
    axes=("data", "reward"),
    formula="R = [rule >= 1/2][judge >= 1/2] (w_correct + w_language share of the target language in the thoughts)",
    conventions={
        **GRPO.conventions,
        "gate": "combine.gates = correct, judge; a gate without an opinion does not bar",
        "judge": "--judge says yes or no (`RIGHT`); without one a second verifier by last number stands in; rewards.1 "
        "takes any other, by the name 'judge'",
        "language": "share of Hangul letters in <think>, weight 0.5; rewards.2.script or .words change it",
        "first stage": "supervised tuning, the plan's first phase: recipe sft",
    },
    note="the shipped base model writes no Hangul, so that the reward of language rests with it",
    rewards=(
        ExactMatch("answer-tag"),
        JudgedBy(ExactMatch("number"), RIGHT, name="judge"),
        LanguageShare("HANGUL", weight=0.5),
    ),
    combine=Gated(("correct", "judge")),
)

"""Is it thought in the language that was asked for?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from hocket.keys import Key
from hocket.stages import Reward
from hocket.types import Trajectory

Part = Literal["thoughts", "all"]

_THOUGHTS = re.compile(r"<think>(.*?)(?:</think>|$)", re.DOTALL)


def thoughts(text: str) -> str:
    """What stands in `<think>` blocks, an open one included; without any, what stands before `<answer>`."""
    found = _THOUGHTS.findall(text)
    return " ".join(found) if found else text.split("<answer>")[0]


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

"""Exact match of answers to open questions, ignoring case, punctuation, articles and spaces."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.numerals import number, numeral
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import allowed_answers
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

_ARTICLES = ("a", "an", "the")
_PUNCTUATION = re.escape(string.punctuation) + "“”„‘’‚«»´…。、，！？；：（）「」『』¿¡"
_MEANS = re.compile(
    rf"(?<=\d)[{_PUNCTUATION}−–]{{1,4}}(?=\d)"  # 10:30 and 1/2
    r"|(?<=[^\W\d])[=^*/<>]{1,4}(?=[\w-])(?=[-\d])|(?<=\d)[=^*/<>]{1,4}(?=[^\W\d])"  # x^2
    r"|(?<![^\W_])[-−–+<>~≈]{1,4}(?=[.\d])|(?<=\d)\.(?=\d)|(?<![^\W_])\.(?=\d)"  # -5m, <5, .5m
    r"|(?<=[^\W_])[+#]{1,4}(?![^\W_])|(?<=[^\W_])[-−](?=[^\w\s−-]*\Z)"  # C++, C#, A+, A-
    r"|(?<=[^\W\d_])[+=<>*^]{1,4}(?=[^\W\d_])"  # a+b
)
_APART = re.compile(r"(?:\A|(?<=\d))\s*([-−–+*/=<>^])\s+(?=\.?\d)")  # - 5, 5 - 3


def normalised(text: str) -> str:
    """Lower case, without articles and punctuation, one space between words, as open questions are graded.

    Numbers become their values, so `$1,000` is `1000` and `3.0` is `3`. Punctuation that carries a meaning stays: that
    between digits (`10:30`), a sign (`-5 m`), `C++` and `C#`. An article stays where no word follows (`vitamin a`).
    """
    value = number(text)
    if value is not None:
        return str(value)
    text = _APART.sub(r"\1", unicodedata.normalize("NFC", text).lower().strip())
    words = [word for word in map(_word, text.split()) if word]
    return " ".join(word for place, word in enumerate(words, 1) if word not in _ARTICLES or place == len(words))


def _word(text: str) -> str:
    """One word; a number is its value."""
    bare = text.rstrip("!?;:,\"'")
    value = number(bare.strip("()[]{}\"'"))
    if value is not None:
        return str(value)
    bare, result, end = bare.rstrip("."), "", 0
    for match in _MEANS.finditer(bare):
        result += _EMPTY.sub("", bare[end : match.start()]) + match[0].replace("−", "-").replace("–", "-")
        end = match.end()
    return result + _EMPTY.sub("", bare[end:])


_EMPTY = re.compile(f"[{_PUNCTUATION}]")


@dataclass(frozen=True)
class NormalisedMatch(Reward):
    """1 if the last tagged answer equals a known one once both are `normalised`, else 0; None without a known one.

    What is nothing once it is normalised, as `.` is, equals only what is written alike.
    """

    name: str = "correct"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.verify(trajectory.answer, trajectory.scenario) for trajectory in trajectories)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on one response."""
        known, response = scenario.answer, tagged(text)
        if known is None:
            return None
        return float(response is not None and any(_alike(response, answer) for answer in allowed_answers(known)))


def _alike(given: str, known: str) -> bool:
    first, second = numeral(given), numeral(known)
    if first is not None and second is not None:
        return first.equals(second)
    left, right = normalised(given), normalised(known)
    return left == right if left or right else given.split() == known.split() != []

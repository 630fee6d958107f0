"""Answers graded by the format of their question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.keys import Key
from hocket.rewards.router import final_answer
from hocket.rewards.verifiers import answer_text, equal
from hocket.stages import Reward
from hocket.types import Trajectory


def chosen_share(given: str, reference: str) -> float:
    """1 for the right letters, |given| / |right| for some of them and no wrong one, else 0."""
    said, right = set(given.upper()) & set("ABCDEFGH"), set(reference.upper()) & set("ABCDEFGH")
    return len(said) / len(right) if said and said <= right else 0.0


def token_match(given: str, reference: str) -> float:
    """1 if equal (numbers by value), else the F1 of the words both hold."""
    if equal(given, reference):
        return 1.0
    left, right = Counter(given.lower().split()), Counter(reference.lower().split())
    common = (left & right).total()
    return 2 * common / (left.total() + right.total()) if common else 0.0


@dataclass(frozen=True)
class FormatGrade(Reward):
    """Yes/no questions by match, choices with credit for a correct subset, open answers by the words they share.

    Curr-ReFT (arXiv 2503.07065; the grades are recalled: for boxes take `Routed("box")`). Reads the scenario's metadata
    `format` (binary, choice, open; open without one). No opinion without an answer.
    """

    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.grade(one.text, one.scenario.answer, one.scenario.metadata.get("format")) for one in trajectories]

    def grade(self, text: str, answer: Any, form: str | None = None) -> float | None:
        """The grade of one completion."""
        if answer is None:
            return None
        given, reference = final_answer(text), answer_text(answer)
        if form == "binary":
            return float(given.lower().strip(". ") == reference.lower())
        return chosen_share(given, reference) if form == "choice" else token_match(given, reference)

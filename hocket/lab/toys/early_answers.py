"""Toys of several claims: early answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hocket.lab.toys.toys import Instances
from hocket.lab.world import Answer

NEVER = -40.0
"""A logit that is never drawn."""


STEP, TAG, SEVEN, THREE = 0, 1, 2, 3


@dataclass(frozen=True)
class Thought(Instances):
    """Steps, the tag that ends thinking, and an answer, 7 or 3. The answer is 7, once `enough` steps were made."""

    enough: int = 2

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] in (SEVEN, THREE) or len(tokens) >= self.horizon)

    def answers(self) -> Iterator[Answer]:
        for steps in range(self.horizon - 1):
            yield from ((*[STEP] * steps, TAG, SEVEN), (*[STEP] * steps, TAG, THREE))
        yield (*[STEP] * (self.horizon - 1), TAG)
        yield (STEP,) * self.horizon

    def right(self, question: int, answer: Answer) -> float:
        """The verdict on an answer."""
        return float(answer[-1] == SEVEN and answer.count(STEP) >= self.enough)

"""The task `bridged-digits`: questions about handwriting, whose lessons describe the picture in words and overthink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.digits import QUESTIONS, Digits
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.types import Scenario

LONGEST = 128
"""Tokens of an answer at most."""

ROUNDS = 4
"""How many times a lesson doubts what it has found, at most."""

MISREAD = 0.3
"""The chance of a wrong digit in a round that is doubted."""


class BridgedDigits(Digits):
    """The questions of `digits`.

    Its lessons are thoughts of a reasoner in words that was handed a description of the picture, the digits of its
    quarters in reading order and `.` for an empty one. It doubts what it has found and begins again, up to `ROUNDS`
    times, at times from a digit that it misread. Thoughts with a wrong answer are left out, so the last round is right.
    """

    def __init__(self, most: int = 4, kinds: Sequence[str] = tuple(QUESTIONS)) -> None:
        super().__init__(most, kinds)
        self.name = self.name.replace("digits", "bridged-digits", 1)

    def scenario(self, split: Split, number: int) -> Scenario:
        posed = super().scenario(split, number)
        rng = np.random.default_rng(number)
        thought = overthought(posed.metadata["kind"], posed.metadata["digits"], rng)
        return Scenario(
            f"bridged-{posed.id}",
            posed.messages,
            posed.answer,
            {**posed.metadata, "demonstration": f"<think>{thought}</think><answer>{posed.answer}</answer>"},
            seed=posed.seed,
        )

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": LONGEST}

    @property
    def lessons(self) -> Lessons:
        """Overthinking behind a description in words; on request."""

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            text = scenario.metadata["demonstration"]
            return [Lesson(tuple(scenario.messages), ({"role": "assistant", "content": text},))]

        return Lessons("how to describe a picture in words and to think about that, too long", 0, play)


def overthought(kind: str, quarters: Sequence[int], rng: np.random.Generator) -> str:
    """A description of a picture, and rounds of thought about it, of which the last is right."""
    digits = [digit for digit in quarters if digit >= 0]
    doubted = [_round(kind, _misread(digits, rng)) for _ in range(int(rng.integers(ROUNDS + 1)))]
    described = " ".join("." if digit < 0 else str(digit) for digit in quarters)
    return f"{described}; {'; no '.join([*doubted, _round(kind, digits)])}"


def _misread(digits: Sequence[int], rng: np.random.Generator) -> list[int]:
    read = list(digits)
    if rng.random() < MISREAD:
        read[int(rng.integers(len(read)))] = int(rng.integers(10))
    return read


def _round(kind: str, digits: Sequence[int]) -> str:
    """One pass over the digits: running sums, counts or largest ones."""
    return " ".join(str(QUESTIONS[kind][1](digits[: count + 1])) for count in range(len(digits)))


def from_settings(name: str, settings: Mapping[str, str]) -> BridgedDigits:
    """The task with these settings."""
    values = checked(name, settings, {"most": int, "kinds": str})
    return BridgedDigits(**values | ({"kinds": values["kinds"].split(",")} if "kinds" in values else {}))


BRIDGED_DIGITS = TaskForm(
    name="bridged-digits",
    description="pictures of handwritten digits, and lessons that describe them in words and overthink",
    make=from_settings,
)

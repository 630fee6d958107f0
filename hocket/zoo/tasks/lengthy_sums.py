"""Sums that a beginner thinks through several times over, for methods that shorten thoughts or leave them out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.arithmetic import expression_of, question_of, verify, working
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario, Trajectory

LESSONS = 60
"""Supervised steps after which the shipped model always thinks, and often further than it needs to."""

THEN = {"steps": 40, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


class LengthySums(TextTask):
    """Sums of three or four terms below 50, with lessons in thinking too long.

    A thought of the lessons is the sum worked out, and then worked out again up to `again` times, each number of times
    equally often: the first working is enough. Such a model stands in for one that reasons at length. Easy questions
    have two terms below 10, and their lessons no thought; the metadata's `needed` is 0 there and 1 elsewhere.

    Args:
        again: how often a thought is repeated at most. easy: the share of easy questions.
        exits: the share of the lessons' thoughts that break off anywhere, with the total so far as the answer.
    """

    def __init__(self, again: int = 2, easy: float = 0.0, exits: float = 0.0) -> None:
        if again < 0 or not 0 <= easy <= 1 or not 0 <= exits <= 1:
            raise ConfigurationError(
                "task lengthy-sums: again must be at least 0, and easy and exits shares in [0, 1], not "
                f"{again}, {easy:g} and {exits:g}"
            )
        shares = [f"{name}={share:g}" for name, share in (("easy", easy), ("exits", exits)) if share]
        settings = [f"again={again}"] * (again != 2) + shares
        self.name = "lengthy-sums" + ("?" + "&".join(settings) if settings else "")
        self.again, self.easy, self.exits = again, easy, exits

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("lengthy-sums", split, number).numpy()
        easy = bool(rng.random() < self.easy)
        while split_of(question := question_of(expression_of(terms := drawn_terms(rng, easy)))) != split:
            pass
        metadata = {"thought": working(terms), "needed": 1.0 - easy}
        return Scenario(f"lengthy-sums/{split}/{number}", question, str(sum(terms)), metadata=metadata, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 128}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`again`: how often the working is repeated."""
        return {**super().describe(trajectory), "again": float(trajectory.answer.count(";"))}

    @property
    def lessons(self) -> Lessons:
        """Thoughts that are too long, with right answers."""
        taught = "to think a sum through, and often again"
        return Lessons(taught, LESSONS, self._lesson, schedule="cosine", then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        worked, answer = str(scenario.metadata["thought"]), str(scenario.answer)
        thoughts = ";".join([worked] * (1 + int(rng.integers(self.again + 1))))
        if rng.random() < self.exits:
            thoughts = thoughts[: int(rng.integers(1, len(thoughts)))]
            totals = re.findall(r"(?:^|=)(-?\d+)(?=[-+;])", thoughts[: len(worked)] + ";")
            answer = totals[-1] if len(thoughts) < len(worked) else answer
        text = f"<think>{thoughts}</think>" if scenario.metadata["needed"] else ""
        reply: Message = {"role": "assistant", "content": f"{text}<answer>{answer}</answer>"}
        return [Lesson(scenario.messages, (reply,))]


def drawn_terms(rng: np.random.Generator, easy: bool) -> list[int]:
    """Three or four terms, or two small ones: the first positive, every later one added or subtracted evenly."""
    sizes = rng.integers(1, 10 if easy else 50, size=2 if easy else int(rng.integers(3, 5))).tolist()
    return [size if place == 0 or rng.random() < 0.5 else -size for place, size in enumerate(sizes)]


def from_settings(name: str, settings: Mapping[str, str]) -> LengthySums:
    """The task with these settings."""
    return LengthySums(**checked(name, settings, {"again": int, "easy": float, "exits": float}))


LENGTHY_SUMS = TaskForm(
    name="lengthy-sums",
    description="sums that lessons teach to think through too often, e.g. lengthy-sums?again=2&easy=0.5",
    family="words",
    make=from_settings,
)

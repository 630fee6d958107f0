"""The task `wireless`: closed forms of wireless communications, each answer checked by algebra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.applications.wirelessmathlm.method import FormulaMatch
from hocket.methods.applications.wirelessmathlm.questions import FIELDS, KINDS, OPTIONS, Question, commuted, draw
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario


class Wireless(TextTask):
    """Questions on closed forms. Letters in their order are of one split alone; answers may have any equal form.

    Args:
        field: `wireless`, or `general` for formulas of other fields. kind: `choice`, `blank` or `equation`; empty for
            all of them.
    """

    def __init__(self, field: str = "wireless", kind: str = "") -> None:
        if field not in FIELDS:
            raise ConfigurationError(f"task wireless: field = {field} is unknown{nearest(field, FIELDS)}")
        if kind and kind not in KINDS:
            raise ConfigurationError(f"task wireless: kind = {kind} is unknown{nearest(kind, KINDS)}")
        options = {"field": field} if field != "wireless" else {}
        options |= {"kind": kind} if kind else {}
        self.name = "wireless" + ("?" + "&".join(f"{key}={value}" for key, value in options.items()) if options else "")
        self.field, self.kinds = field, (kind,) if kind else KINDS
        self._verifier = FormulaMatch()

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        question = self._drawn(self.field, split, Key.of(0).derive(self.name, split, number).numpy())
        metadata = {"frame": question.frame, "wrong": question.wrong}
        return Scenario(f"{self.name}/{split}/{number}", question.text, question.answer, metadata, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._verifier,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 48}

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._verifier.verify(text, scenario)

    @property
    def lessons(self) -> Lessons:
        """What stands in for the texts that a base model has read: half of the answers have a slip."""
        return Lessons(
            "closed forms of this and other fields, half of them with a slip",
            LESSONS,
            self._lesson,
            then=lambda recipe: THEN,
            needed=True,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        """Of the scenario or, one time in three, of a question of the other fields."""
        prompt, answer, wrong = scenario.messages, str(scenario.answer), scenario.metadata["wrong"]
        if rng.random() < 1 / 3:
            other = self._drawn("general", "train", rng)
            prompt, answer, wrong = ({"role": "user", "content": other.text},), other.answer, other.wrong
        text = _equal(answer, rng) if rng.random() < SKILL else wrong[int(rng.integers(len(wrong)))]
        return [Lesson(prompt, ({"role": "assistant", "content": f"<answer>{text}</answer>"},))]

    def _drawn(self, field: str, split: Split, rng: np.random.Generator) -> Question:
        while True:
            question = draw(field, self.kinds, rng)
            if split_of(question.text.rstrip("?").partition(";")[0]) == split:
                return question


def _equal(answer: str, rng: np.random.Generator) -> str:
    """A right answer in one of its forms."""
    return answer if answer in OPTIONS else commuted(answer, rng)


SKILL = 0.5
"""How often a beginner's answer is right."""

LESSONS = 110
"""Steps of lessons."""

THEN = {"steps": 80, "update.lr": 5e-4, "evaluation.n": 200}
"""Settings of training after the lessons."""


def from_settings(name: str, settings: Mapping[str, str]) -> Wireless:
    """The task with these settings."""
    return Wireless(**checked(name, settings, {"field": str, "kind": str}))


WIRELESS_TASK = TaskForm(
    name="wireless",
    description="closed forms of wireless communications, checked by algebra, e.g. wireless?kind=equation",
    make=from_settings,
)

"""The task `drawing`: bar charts to be drawn again by a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.media import MEDIA, pictures_in, with_pictures
from hocket.core.options import checked
from hocket.core.pictures import picture_bytes
from hocket.methods.generative.rrvf.drawing import (
    COLUMNS,
    TALLEST,
    Program,
    code_of,
    likeness,
    program_in,
    render,
    shown,
)
from hocket.methods.generative.rrvf.method import called, comparison
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

RIGHT = 0.5
"""How often a beginner reads the height of a bar right; else it is off by one."""

DRAFTS = 0.5
"""How often a beginner has its program rendered before it submits one."""


class Drawing(TextTask):
    """A picture of a bar chart; the answer is a program. Training and evaluation share no chart.

    The reward is the likeness of the program's picture; right is the same picture.
    """

    name: str = "drawing"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        name, program = f"drawing/{split}/{number}", drawn(split, number)
        picture = MEDIA.put(picture_bytes(render(program)), f"the picture of {name}")
        message = {"role": "user", "content": with_pictures("Draw?", [picture])}
        return Scenario(name, (message,), code_of(program), seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings = {"model": "nano-vlm", "steps": 60, "decoding.max_tokens": 32, "update.lr": 3e-4}
        return {**super().suggest(recipe), **settings}

    def verify(self, text: str, scenario: Scenario) -> float:
        return self._likeness(tagged(text), scenario)

    def _likeness(self, code: str | None, scenario: Scenario) -> float:
        program = program_in(code or "")
        picture = shown(pictures_in(scenario.messages)[0])
        return 0.0 if program is None else likeness(render(program), picture)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`likeness` of the answer and of the first program, `first`; `calls`: whether that one was a draft."""
        scenario, first = trajectory.scenario, trajectory.turns[0].text
        draft = called(first)
        return {
            **super().describe(trajectory),
            "likeness": self.verify(trajectory.answer, scenario),
            "first": self._likeness(tagged(first) if draft is None else draft, scenario),
            "calls": float(draft is not None),
        }

    @property
    def lessons(self) -> Lessons:
        """A beginner's drafts and answers; on request."""

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            program = program_in(str(scenario.answer))
            assert program is not None
            draft = guessed(program, rng)
            if rng.random() >= DRAFTS:
                return [Lesson(tuple(scenario.messages), (_line(f"<answer>{code_of(draft)}</answer>"),))]
            call = _line(f"<tool_call>{code_of(draft)}</tool_call>")
            answer = _line(f"<answer>{code_of(program)}</answer>")
            return [Lesson(tuple(scenario.messages), (call, comparison(draft, scenario), answer))]

        return Lessons("how a beginner draws: heights are off by one half of the time, and right after a look", 0, play)


def _line(text: str) -> Mapping[str, Any]:
    return {"role": "assistant", "content": text}


def drawn(split: Split, number: int) -> Program:
    """A chart of a split, which is not dark."""
    rng = Key.of(0).derive("drawing", split, number).numpy()
    while True:
        program = dict(zip(COLUMNS, rng.integers(TALLEST + 1, size=len(COLUMNS)).tolist(), strict=True))
        if any(program.values()) and split_of(code_of(program)) == split:
            return program


def guessed(program: Program, rng: np.random.Generator) -> Program:
    """The heights as a beginner reads them."""
    off = rng.integers(2, size=len(program)) * 2 - 1
    off[rng.random(len(program)) < RIGHT] = 0
    return {
        column: min(max(height + int(step), 0), TALLEST)
        for (column, height), step in zip(program.items(), off.tolist(), strict=True)
    }


def from_settings(name: str, settings: Mapping[str, str]) -> Drawing:
    """The task; it has no settings."""
    checked(name, settings, {})
    return Drawing()


DRAWING = TaskForm(
    name="drawing",
    description="pictures of bar charts, to be drawn again by a program",
    make=from_settings,
)

"""Instructions with two demands on a text of short words, each checked by a program, and lessons for the shipped base.

The task's own verdict is one on the whole: whether all demands are met. What ACE-RL adds is a verdict on each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.group_relative.ace_rl.method import (
    Constraint,
    EndsWith,
    Mentions,
    WordOrder,
    WordRange,
    instruction,
    satisfied,
)
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

WORDS = ("sun", "oak", "rain", "owl", "fog", "elm", "hay", "bee", "ice", "sea", "moss", "kite")
"""What texts are made of."""

DEMANDS = 2
"""Of an instruction; no two are of one kind, and no two name the same word, so that all can be met at once."""

THEN = {"steps": 40, "curriculum.prompts": 16, "update.lr": 2.5e-4, "evaluation.n": 200}
"""Settings for training after the lessons."""


def drawn(rng: np.random.Generator) -> tuple[Constraint, ...]:
    """The demands of an instruction, in the order in which they are made."""
    first, second, named, last = (WORDS[place] for place in rng.permutation(len(WORDS))[:4].tolist())
    least = int(rng.integers(4, 7))
    kinds: tuple[Constraint, ...] = (
        WordRange(least, least + 2),
        Mentions(named),
        WordOrder(first, second),
        EndsWith(last),
    )
    return tuple(kinds[place] for place in rng.permutation(len(kinds))[:DEMANDS].tolist())


def written(constraints: Sequence[Constraint], skill: float, rng: np.random.Generator) -> str:
    """A beginner's text: a demand is kept in mind with the chance `skill`; the others are left to luck."""
    minded = [constraint for constraint in constraints if rng.random() < skill]
    length, inner, last = int(rng.integers(3, 10)), list[str](), list[str]()
    for constraint in minded:
        if isinstance(constraint, WordRange):
            length = int(rng.integers(constraint.least, constraint.most + 1))
        elif isinstance(constraint, WordOrder):
            inner = [constraint.first, constraint.second, *inner]
        elif isinstance(constraint, Mentions):
            inner = [*inner, constraint.word]
        elif isinstance(constraint, EndsWith):
            last = [constraint.word]
    others = [word for word in WORDS if word not in inner]
    free = [str(word) for word in rng.choice(others, max(0, length - len(inner) - len(last)))]
    for word, place in zip(reversed(inner), sorted(rng.integers(0, len(free) + 1, len(inner)))[::-1], strict=True):
        free.insert(int(place), word)
    return " ".join([*free, *last])


class Demands(TextTask):
    """Texts that should meet every demand of an instruction.

    Args:
        skill: the chance with which the beginner of the lessons keeps a demand in mind.
    """

    def __init__(self, skill: float = 0.6) -> None:
        if not 0 <= skill <= 1:
            raise ConfigurationError(f"task demands: skill = {skill} is no chance; choose one from 0 to 1")
        self.name, self.skill = f"demands?skill={skill:g}", skill

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("demands", split, number).numpy()
        while split_of(instruction(constraints := drawn(rng))) != split:
            continue
        metadata = {"constraints": constraints}
        return Scenario(f"demands/{split}/{number}", instruction(constraints), metadata=metadata, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        """Whether all demands are met."""
        return float(all(satisfied(text, scenario.metadata["constraints"])))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`met`: the share of the demands that are met."""
        return {"met": float(np.mean(satisfied(trajectory.answer, trajectory.scenario.metadata["constraints"])))}

    def label(self, trajectory: Trajectory) -> str | None:
        """The text."""
        return trajectory.answer.strip()

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 64}

    @property
    def lessons(self) -> Lessons:
        taught = "texts of a beginner, who forgets demands"
        return Lessons(taught, 200, self._lesson, schedule="cosine", then=lambda recipe: THEN)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        text = written(scenario.metadata["constraints"], self.skill, rng)
        prompt = ({"role": "user", "content": scenario.prompt},)
        return [Lesson(prompt, ({"role": "assistant", "content": text},))]


def from_settings(name: str, settings: Mapping[str, str]) -> Demands:
    """The task with these settings."""
    return Demands(**checked(name, settings, {"skill": float}))


DEMANDS_TASK = TaskForm(
    name="demands",
    description="short texts that should meet two demands of an instruction, each checked by a program",
    make=from_settings,
)

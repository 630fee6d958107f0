"""Pages in words, with several things to do in order, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.keys import Key
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, episode
from hocket.tasks.solitary import played
from hocket.tasks.split import split_of
from hocket.tasks.text import check_number
from hocket.types import Scenario
from hocket.zoo.screens import OnScreen, Screens, any_of


class ScreenTask(EnvironmentTask):
    """Pages without end; which split a page belongs to, its own words decide.

    A scenario's metadata say `screen` (the number that makes it) and `plan`, the moves that do what is asked.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world = self.workflow.world
        assert isinstance(world, Screens)
        key, tries = Key.of(0).derive("screens", world.longest, world.size, split, number), 0
        while split_of(world.screen(key.derive(tries).word >> 12).told()) != split:
            tries += 1
        made = key.derive(tries).word >> 12
        screen = world.screen(made)
        metadata = {"screen": made, "plan": screen.plan}
        return Scenario(f"screens/{split}/{number}", screen.told(), metadata=metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 12}

    @property
    def lessons(self) -> Lessons:
        """The form of a move, at random, and one time in four what comes next."""
        return Lessons(
            "the form of a move: three in four at random, else what comes next",
            60,
            lambda scenario, rng: episode(self.workflow, scenario, _beginner, rng),
            talks=4,
            then=lambda recipe: THEN,
        )


SKILL = 0.25
"""How often a beginner does what comes next."""

THEN = {"steps": 60, "update.lr": 5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


def _beginner(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    assert isinstance(environment, OnScreen)
    return environment.following if rng.random() < SKILL else any_of(environment.screen, rng)


SETTINGS = {"longest": int, "size": int, "spare": int, "strays": bool, "slip": float, "lost": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> ScreenTask:
    """The task with settings of the world and of how it is played."""
    return ScreenTask(played(name, {"instruct": "false", **settings}, Screens, SETTINGS))


SCREENS = TaskForm(
    name="screens",
    description="pages in words with several things to do in order, e.g. screens?longest=6",
    family="words",
    make=from_settings,
)

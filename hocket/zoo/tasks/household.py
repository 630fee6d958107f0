"""Errands in households as a task."""

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
from hocket.zoo.household import Household, Households, plan


class HouseholdTask(EnvironmentTask):
    """Houses are drawn without end; which split a house belongs to, its own words decide.

    A scenario's metadata say `house` (the number that makes it), `errand`, and `shortest`, the moves of a best plan.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world = self.workflow.world
        assert isinstance(world, Households)
        key, tries = Key.of(0).derive("household", world.size, split, number), 0
        while split_of((house := world.house(Key.of(key.derive(tries).word >> 12))).text) != split:
            tries += 1
        metadata = {"house": key.derive(tries).word >> 12, "errand": house.goal.errand, "shortest": len(plan(house))}
        return Scenario(f"household/{world.size}/{split}/{number}", house.task, metadata=metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        """Legal moves, most of them of a shortest plan, which the observation does not show; others lead anywhere."""
        return Lessons(
            "which moves can be made, and errands with some of the ways at random",
            100,
            lambda scenario, rng: episode(self.workflow, scenario, _wandering, rng),
            schedule="cosine",
            talks=1 if self.workflow.memory else 2,
            then=lambda recipe: THEN,
        )


SKILL = 0.8
"""How often a beginner makes the move of a shortest plan."""

THEN = {"steps": 40, "curriculum.prompts": 8, "rollout.samples": 8, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons: few episodes of many moves."""


def _planned(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """The next move of a shortest plan."""
    assert isinstance(environment, Household)
    return environment.worded(plan(environment.house, environment.now)[0])


def _wandering(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """The planned move, or sometimes the way to any place or room."""
    assert isinstance(environment, Household)
    if rng.random() < SKILL:
        return _planned(environment, seat, rng)
    ways = [way for way in environment.whole_moves() if way.startswith(("go to ", "enter "))]
    return environment.worded(ways[int(rng.integers(len(ways)))])


SETTINGS = {"size": int, "steps": int, "dense": float, "recall": bool, "brief": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> HouseholdTask:
    """The task with settings of the world and of how it is played.

    It is brief unless `brief` is false. A brief one says nothing of the form of moves: the shipped model learns that
    from lessons, and cannot match words.
    """
    merged = {"brief": "true", **settings}
    if merged["brief"] == "true":
        merged = {"instruct": "false", **merged}
    return HouseholdTask(played(name, merged, Households, SETTINGS))


HOUSEHOLD = TaskForm(
    name="household",
    description="errands in a house in few words (brief=false: in sentences), e.g. household?size=2&dense=0.1",
    family="words",
    make=from_settings,
)

"""Mazes as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, either, episode
from hocket.tasks.solitary import played
from hocket.tasks.split import split_of
from hocket.tasks.text import check_number
from hocket.types import Scenario
from hocket.zoo.maze import DIRECTIONS, Maze, Mazes

TRIES = 1000
"""Mazes that are drawn at most until one belongs to a split."""


class MazeTask(EnvironmentTask):
    """Mazes are drawn without end; which split a maze belongs to, its map decides.

    A scenario's metadata say `maze` (the number that makes it) and `shortest`, the moves of a shortest way.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world = self.workflow.world
        assert isinstance(world, Mazes)
        key, tries = Key.of(0).derive("maze", world.width, world.height, world.loops, split, number), 0
        while split_of((layout := world.layout(Key.of(key.derive(tries).word >> 12))).text) != split:
            tries += 1
            if tries == TRIES:
                raise ConfigurationError(
                    f"maze: there are too few mazes of {world.width} x {world.height} cells for the {split} split; "
                    "make them larger"
                )
        metadata = {"maze": key.derive(tries).word >> 12, "shortest": layout.shortest}
        name = f"maze/{world.width}x{world.height}/{split}/{number}"
        return Scenario(name, "Find the way to the goal.", metadata=metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 16}

    @property
    def lessons(self) -> Lessons:
        """Openings taken half at random, half along a shortest way, which the observation does not show."""
        return Lessons(
            "which moves are open, and a way that is half random",
            40,
            lambda scenario, rng: episode(self.workflow, scenario, either(SKILL, _shortest), rng),
            talks=1 if self.workflow.memory else 8,
            prompts=64,
            then=lambda recipe: THEN,
        )


SKILL = 0.5
"""How often a beginner goes the shortest way."""

THEN = {"steps": 20, "curriculum.prompts": 8, "rollout.samples": 16, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons: few episodes of many moves."""


def _shortest(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """The move to a cell that is nearer to the goal."""
    assert isinstance(environment, Maze)
    layout, cell = environment.layout, environment.cell
    near = min(layout.open(cell), key=lambda number: layout.distances[layout.ways[cell][number]])
    word = DIRECTIONS[near]
    return word[0] if environment.world.brief else word


SETTINGS = {
    "width": int,
    "height": int,
    "loops": int,
    "steps": int,
    "slip": float,
    "compass": bool,
    "places": bool,
    "brief": bool,
}


def from_settings(name: str, settings: Mapping[str, str]) -> MazeTask:
    """The task with settings of the world and of how it is played."""
    return MazeTask(played(name, settings, Mazes, SETTINGS))


MAZE = TaskForm(
    name="maze",
    description="mazes in words, e.g. maze?width=4&height=4&slip=0.1",
    family="words",
    make=from_settings,
)

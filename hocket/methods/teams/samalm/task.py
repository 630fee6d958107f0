"""Robots that cross a floor among people as a task: `crossing`, e.g. `crossing?robots=2&people=3`."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.columns import RETURNS
from hocket.methods.teams.samalm.world import Crossing, Crossings, sensible
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, either, episode
from hocket.tasks.solitary import played
from hocket.types import Trajectory

SKILL = 0.7
"""How often a beginner gives the sensible command; else any."""


def arrived(trajectory: Trajectory) -> float:
    """The share of robots that reached their goals and touched nobody."""
    earned = list(RETURNS.get(trajectory, {}).values())
    return fmean([float(one > 0) for one in earned] or [0.0])


def touched(trajectory: Trajectory) -> float:
    """The share of robots that touched somebody."""
    earned = list(RETURNS.get(trajectory, {}).values())
    return fmean([float(one <= -1) for one in earned] or [0.0])


class CrossingTask(EnvironmentTask):
    """Episodes of robots that cross; success is the share that arrive."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`touched`, the share of robots that touched somebody, and what any environment tells."""
        return {**super().describe(trajectory), "touched": touched(trajectory)}

    @property
    def lessons(self) -> Lessons:
        """Sensible commands, by the straight ways of the others, seven times in ten, else any."""
        return Lessons(
            "commands, seven in ten sensible by where the others go now, the rest any",
            60,
            lambda scenario, rng: episode(self.workflow, scenario, either(SKILL, planned), rng),
            talks=1 if self.workflow.memory else 8,
            then=lambda recipe: THEN,
        )


def planned(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """The sensible command."""
    assert isinstance(environment, Crossing)
    return sensible(environment, seat)


THEN = {"steps": 20, "curriculum.prompts": 8, "rollout.samples": 4, "update.lr": 2.5e-4, "evaluation.n": 40}
"""What suits after the lessons."""

SETTINGS = {
    "robots": int,
    "people": int,
    "personas": str,
    "length": int,
    "circle": float,
    "yielding": bool,
    "sight": int,
}


def from_settings(name: str, settings: Mapping[str, str]) -> CrossingTask:
    """The task with settings of the floor and of how it is played."""
    return CrossingTask(played(name, {"instruct": "false", **settings}, Crossings, SETTINGS), measure=arrived)


CROSSING = TaskForm(
    name="crossing",
    description="robots that cross a floor where people walk, by commands in words, e.g. crossing?robots=2&people=3",
    make=from_settings,
)

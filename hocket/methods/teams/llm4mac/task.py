"""A channel that several nodes share as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.methods.teams.llm4mac.world import SEND, WAIT, Uplinks
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, either, episode
from hocket.tasks.solitary import played


class UplinkTask(EnvironmentTask):
    """Episodes on a shared channel; success is its throughput, packets delivered per slot."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 12}

    @property
    def lessons(self) -> Lessons:
        """The two moves, three in four by the toss of a coin, the rest by the number of the node."""
        return Lessons(
            "the two moves, three in four by the toss of a coin, the rest by the number of the node",
            40,
            lambda scenario, rng: episode(self.workflow, scenario, either(SKILL, _by_number), rng),
            talks=1 if self.workflow.memory else 8,
            then=lambda recipe: THEN,
        )


SKILL = 0.25
"""How often a beginner makes the move that its number is for; else it tosses a coin."""


def _by_number(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """The first node sends, the others wait: a lean, since from mere coins the shipped model was not seen to part.

    It is no answer: the first node's packets run out, and the others' are half of what can be delivered.
    """
    return SEND if seat == environment.agents[0] else WAIT


THEN = {"steps": 30, "curriculum.prompts": 16, "rollout.samples": 4, "update.lr": 5e-4, "evaluation.n": 50}
"""What suits after the lessons."""

SETTINGS = {"nodes": int, "slots": int, "buffer": int, "arrivals": float, "identified": bool, "signals": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> UplinkTask:
    """The task with settings of the channel and of how it is played."""
    return UplinkTask(played(name, settings, Uplinks, SETTINGS))


UPLINK = TaskForm(
    name="uplink",
    description="nodes that share a channel and must find who sends when, e.g. uplink?nodes=3&slots=6&arrivals=0.5",
    make=from_settings,
)

"""Strange devices in the dark as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.keys import Key
from hocket.methods.agents.knowledge_injection_text_games.devices import Darkness, Devices
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, episode
from hocket.tasks.solitary import played
from hocket.tasks.split import split_of
from hocket.tasks.text import check_number
from hocket.types import Scenario


class DevicesTask(EnvironmentTask):
    """Sheds without end; which split a shed belongs to, its devices and what starts them decide.

    A scenario's metadata say `shed`, the number that makes it.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world: Any = self.workflow.world
        key, tries = Key.of(0).derive("devices", world.count, world.verbs, split, number), 0
        while split_of(str(world.shed(key.derive(tries).word >> 12))) != split:
            tries += 1
        made = key.derive(tries).word >> 12
        return Scenario(f"devices/{split}/{number}", world.shed(made).text, metadata={"shed": made}, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 16}

    @property
    def lessons(self) -> Lessons:
        """The form of a move: any verb with any device, and at times the one that starts a device."""
        return Lessons(
            f"the form of a move: one in {round(1 / SKILL)} starts a device, the others are any verb with any device",
            LESSONS,
            lambda scenario, rng: episode(self.workflow, scenario, _beginner, rng),
            talks=1 if self.workflow.memory else 4,
            then=lambda recipe: THEN,
            needed=True,
        )


SKILL = 1 / 4
"""How often a beginner starts a device."""

LESSONS = 80
"""Steps that teach it."""

THEN = {"steps": 60, "update.lr": 5e-4, "evaluation.n": 100}
"""What suits after the lessons."""


def _beginner(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """A move that starts a device, or any."""
    assert isinstance(environment, Darkness)
    starting, verbs, names = environment.starting, environment.verbs, tuple(environment.shed.fits)
    if rng.random() < SKILL:
        return starting[int(rng.integers(len(starting)))]
    return f"{verbs[int(rng.integers(len(verbs)))]} {names[int(rng.integers(len(names)))]}"


SETTINGS = {"count": int, "verbs": int, "spare": int}


def from_settings(name: str, settings: Mapping[str, str]) -> DevicesTask:
    """The task with settings of the world and of how it is played."""
    return DevicesTask(played(name, {"instruct": "false", **settings}, Devices, SETTINGS))


DEVICES = TaskForm(
    name="devices",
    description="devices in the dark, each started by a verb of its own, e.g. informed:devices?count=3",
    make=from_settings,
)

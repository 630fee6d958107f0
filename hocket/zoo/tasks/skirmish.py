"""Skirmishes of control policies, by name, and what tasks of skirmishes in words share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from hocket.core.columns import RETURNS
from hocket.core.errors import ConfigurationError
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import GRIDS, native_task
from hocket.types import Trajectory
from hocket.zoo.joint.skirmish import Skirmish

GROUND = ("size", "sight", "reach", "radio", "hops", "health", "strength", "spread", "length")
"""Settings of a ground in a task's name."""


class SkirmishTask(EnvironmentTask):
    """Skirmishes without end. Success is victory; the reward pays for the foes' health as well."""

    def success(self, trajectory: Trajectory) -> float:
        return float(max(RETURNS.get(trajectory, {}).values(), default=0.0) > 1 - 1e-9)


def _skirmish(name: str, settings: Mapping[str, str]) -> JointTask:
    match = re.fullmatch(r"skirmish:(\d+)v(\d+)", name)
    if match is None:
        raise ConfigurationError(f"there is no task {name!r}; write skirmish:3v3, soldiers and foes")
    make = partial(Skirmish, int(match[1]), int(match[2]))
    return native_task(name, settings, dict.fromkeys(GROUND, int), make, GRIDS, team=True)


SKIRMISH = TaskForm(
    name="skirmish:WORLD",
    description="soldiers of control policies against scripted foes on a grid, e.g. skirmish:3v3?hops=2",
    family="worlds",
    make=_skirmish,
)

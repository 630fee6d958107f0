"""Routes of discs in a plane, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.methods.marl.camar.world import Routing
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

_ROUTES: Mapping[str, Any] = {"curriculum.prompts": 32, "steps": 60, "credit.gamma": 0.95, "update.lr": 2e-3}


def _routing(name: str, settings: Mapping[str, str]) -> JointTask:
    if name != "camar:routing":
        raise ConfigurationError(f"there is no task {name!r}; write camar:routing")
    hints: dict[str, Any] = dict.fromkeys(("agents", "size", "length", "frames", "near", "maps"), int)
    hints |= dict.fromkeys(("density", "accel", "goal", "window", "shaping"), float) | {"guide": bool}
    return native_task(name, settings, hints, Routing, _ROUTES, identified=False)


CAMAR = TaskForm(
    name="camar:WORLD",
    description="routes of discs in a plane by continuous forces: camar:routing?agents=4&size=5&density=0.15",
    make=_routing,
)

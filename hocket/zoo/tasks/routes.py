"""Routes, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task
from hocket.zoo.joint.routes import KINDS, Routes

SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 8,
    "steps": 60,
    "credit.gamma": 1.0,
    "update.lr": 1e-3,
    "update.epochs": 1,
    "update.minibatches": 1,
    "network.body": "pointer",
    "network.hidden": [64, 64],
}

_HINTS: Mapping[str, Any] = {"places": int, "stretch": float}
_MORE: Mapping[str, Mapping[str, Any]] = {
    "tsp": {},
    "cvrp": {"vehicles": int, "capacity": int, "priorities": bool},
    "minmax": {"vehicles": int, "priorities": bool},
    "profiles": {"vehicles": int, "capacity": int, "priorities": bool, "bonus": float},
}
_USUAL: Mapping[str, Mapping[str, Any]] = {"minmax": {"vehicles": 3}, "profiles": {"vehicles": 3}}


def _routes(name: str, settings: Mapping[str, str]) -> JointTask:
    kind = name.removeprefix("routes:")
    if kind not in KINDS:
        raise ConfigurationError(f"there is no task {name!r}{nearest(kind, KINDS)}; choose from {', '.join(KINDS)}")

    def make(**given: Any) -> Routes:
        count = given.pop("places", 20)
        return Routes(kind, **{**_USUAL.get(kind, {}), "count": count, **given})

    return native_task(name, settings, {**_HINTS, **_MORE[kind]}, make, SUGGESTED)


ROUTES = TaskForm(
    name="routes:KIND",
    description="routes that serve every place: routes:tsp?places=20, cvrp, minmax?vehicles=3, profiles",
    family="worlds",
    make=_routes,
)

"""Worlds that ask for memory, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked
from hocket.core.worlds import JointWorld
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.zoo.joint.bandits import BanditWorld
from hocket.zoo.joint.partners import Partner
from hocket.zoo.joint.recall import Corridor

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "steps": 40,
    "credit.gamma": 0.98,
    "update.lr": 3e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


_WORLDS: Mapping[str, tuple[Callable[..., JointWorld], Mapping[str, Any], Mapping[str, Any]]] = {
    "corridor": (Corridor, {"length": int}, {}),
    "bandit": (BanditWorld, {"arms": int, "length": int, "noise": int}, {}),
    "partner": (
        Partner,
        {"kinds": int, "length": int, "slip": float, "noise": int, "told": bool},
        {"credit.gamma": 0.0, "steps": 60},  # What is done in a round changes none that comes after.
    ),
}
"""By name, what the name may set, and further settings for this world."""


def _recall(name: str, settings: Mapping[str, str]) -> JointTask:
    kind = name.removeprefix("recall:")
    if kind not in _WORLDS:
        raise ConfigurationError(f"there is no task {name!r}{nearest(kind, _WORLDS)}; choose from {', '.join(_WORLDS)}")
    make, hints, suited = _WORLDS[kind]
    return JointTask(make(**checked(name, settings, hints)), suggested={**_SUGGESTED, **suited})


RECALL = TaskForm(
    name="recall:WORLD",
    description="worlds that ask for memory: recall:corridor?length=8, recall:bandit?arms=2, or recall:partner?kinds=3",
    family="worlds",
    make=_recall,
)

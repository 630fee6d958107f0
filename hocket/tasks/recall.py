"""Worlds that ask for memory, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked
from hocket.core.worlds import JointWorld
from hocket.environments.joint.bandits import Bandit
from hocket.environments.joint.recall import Corridor
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "steps": 40,
    "credit.gamma": 0.98,
    "update.lr": 3e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


_WORLDS: Mapping[str, tuple[Callable[..., JointWorld], Mapping[str, Any]]] = {
    "corridor": (Corridor, {"length": int}),
    "bandit": (Bandit, {"arms": int, "length": int, "noise": int}),
}
"""By name, and what the name may set."""


def _recall(name: str, settings: Mapping[str, str]) -> JointTask:
    kind = name.removeprefix("recall:")
    if kind not in _WORLDS:
        raise ConfigurationError(f"there is no task {name!r}{nearest(kind, _WORLDS)}; choose from {', '.join(_WORLDS)}")
    make, hints = _WORLDS[kind]
    return JointTask(make(**checked(name, settings, hints)), suggested=_SUGGESTED)


RECALL = TaskForm(
    name="recall:WORLD",
    description="worlds that ask for memory: recall:corridor?length=8, or recall:bandit?arms=2, new arms",
    make=_recall,
)

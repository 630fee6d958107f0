"""Worlds that ask for memory, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
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


def _recall(name: str, settings: Mapping[str, str]) -> JointTask:
    if name != "recall:corridor":
        raise ConfigurationError(f"there is no task {name!r}; choose recall:corridor")
    return JointTask(Corridor(**checked(name, settings, {"length": int})), suggested=_SUGGESTED)


RECALL = TaskForm(
    name="recall:corridor",
    description="a cue to remember to the end of a corridor, with recurrent networks, e.g. recall:corridor?length=8",
    make=_recall,
)

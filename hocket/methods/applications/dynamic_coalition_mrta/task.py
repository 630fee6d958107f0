"""Tasks that need several robots, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.methods.applications.dynamic_coalition_mrta.arena import Coalitions
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 1,
    "steps": 24,
    "credit.gamma": 0.97,
    "update.lr": 2e-3,
    "update.epochs": 2,
    "update.minibatches": 8,
    "network.hidden": [16, 16],
}


def _coalitions(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = dict.fromkeys(("agents", "tasks", "size", "view", "reach", "length", "latest"), int) | {"revise": bool}
    return native_task(name, settings, hints, Coalitions, _SUGGESTED, identified=False)


COALITIONS = TaskForm(
    name="coalitions",
    description="robots that must come together at tasks, e.g. coalitions?agents=4&tasks=4",
    make=_coalitions,
)

"""Several tasks at once, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointWorld
from hocket.methods.marl.mtmarl_shared_layers.mixture import MixtureTask, TaskMixture
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "steps": 30,
    "credit.gamma": 0.97,
    "update.lr": 3e-3,
    "network.hidden": [64, 64, 64],
}


def _together(name: str, settings: Mapping[str, str]) -> JointTask:
    names = name.partition(":")[2].split("+")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"task {name}: a task is named twice; name each once")
    parts = tuple((part, _world(name, part)) for part in names)
    return native_task(name, settings, {}, lambda: TaskMixture(parts), _SUGGESTED, identified=False, form=MixtureTask)


def _world(whole: str, name: str) -> JointWorld:
    task = tasks.find(name)
    if not isinstance(task, JointTask):
        raise ConfigurationError(f"task {whole}: {name} is no task of a team; use such as skirmish:3v3")
    return task.world


TOGETHER = TaskForm(
    name="together:TASKS",
    description="episodes of several tasks of teams by turns, e.g. together:skirmish:2v3+skirmish:4v3",
    make=_together,
)

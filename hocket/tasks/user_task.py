"""Tasks of a user's own file: `FILE.py:NAME`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.core.user_files import load_object
from hocket.stages import Task
from hocket.tasks.form import TaskForm

MEMBERS = ("name", "kind", "size", "scenario", "rewards", "suggest", "describe", "success")


def own_task(reference: str, settings: Mapping[str, str]) -> Task:
    """A user's task: the object itself, or what a class or function makes of the settings."""
    task = load_object(reference, "task")
    if inspect.isclass(task) or inspect.isroutine(task):
        hints = {name: _annotation(parameter) for name, parameter in inspect.signature(task).parameters.items()}
        options = checked(reference, settings, hints)
        try:
            task = task(**options)
        except TypeError as error:
            raise ConfigurationError(
                f"task {reference} cannot be made: {error}; write {reference}?key=value"
            ) from error
    elif settings:
        raise ConfigurationError(f"task {reference} is an object already, so it takes no settings")
    missing = [member for member in MEMBERS if not hasattr(task, member)]
    if missing:
        raise ConfigurationError(
            f"task {reference} lacks {', '.join(missing)}; derive it from hocket.tasks.text.TextTask, or give it the "
            "members of hocket.stages.Task"
        )
    return cast(Task, task)


def _annotation(parameter: inspect.Parameter) -> Any:
    """The type a user's parameter takes from text: its annotation if simple, else its default's, else text."""
    simple = {"int": int, "float": float, "bool": bool, "str": str}
    named = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    if named in simple:
        return simple[named]
    kind = type(parameter.default)
    return kind if kind in (int, float, bool) else str


OWN = TaskForm(
    name="FILE.py:NAME",
    description="a task object of yours, or a class or function that makes one",
    family="data",
    make=own_task,
)

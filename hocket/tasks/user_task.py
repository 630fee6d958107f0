"""Tasks of users: `FILE.py:NAME` and objects from Python; tasks, environments and rows of data."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from hocket.agents.environments.user_environments import UserEnvironment, interface_of, is_environment
from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.core.user_files import load_object
from hocket.stages import Task
from hocket.tasks.data import from_rows, is_rows
from hocket.tasks.environment import OF_ENVIRONMENTS, user_environment_task
from hocket.tasks.form import TaskForm

MEMBERS = ("name", "kind", "size", "scenario", "rewards", "suggest", "describe", "success")


def own_task(reference: str, settings: Mapping[str, str], held_out: bool = False) -> Task:
    """The task that `FILE.py:NAME` names, see `task_of`."""
    return task_of(load_object(reference, "task"), reference, settings, held_out=held_out)


def task_of(value: Any, reference: str, settings: Mapping[str, str] | None = None, *, held_out: bool = False) -> Task:
    """A user's task: a task, an environment or rows, or what a class or function makes of the settings.

    Args:
        reference: what the value is, for errors and, without its file, as the name of data.
        held_out: whether rows are all to be evaluated on.

    Raises:
        ConfigurationError: for what is none of these, and for settings that do not go with it.
    """
    texts = dict(settings or {})
    if not hasattr(value, "scenario") and is_environment(value):
        return user_environment_task(_named(value, reference), texts)
    made = value
    if inspect.isclass(value) or (callable(value) and not hasattr(value, "scenario") and not is_rows(value)):
        made = _made(value, reference, texts)
        if interface_of(made) is not None and not hasattr(made, "scenario"):
            made.close()
            return user_environment_task(_named(value, reference), texts)
    elif texts:
        raise ConfigurationError(f"task {reference} is an object already, so it takes no settings")
    if not hasattr(made, "scenario") and is_rows(made):
        return from_rows(made, reference.rpartition(":")[2], **({"eval_share": 1.0} if held_out else {}))
    missing = [member for member in MEMBERS if not hasattr(made, member)]
    if missing:
        raise ConfigurationError(
            f"task {reference} lacks {', '.join(missing)} (it is of type {type(made).__name__}); give rows of data, an "
            "environment, or a task: derive it from hocket.tasks.text.TextTask, or give it the members of "
            "hocket.stages.Task"
        )
    return cast(Task, made)


def _named(value: Any, reference: str) -> UserEnvironment:
    return UserEnvironment(reference.rpartition(":")[2], value)


def _made(maker: Any, reference: str, settings: Mapping[str, str]) -> Any:
    try:
        parameters = inspect.signature(maker).parameters
    except ValueError:  # Some builtins have no signature.
        raise ConfigurationError(f"task {reference}: {maker!r} makes no task; give rows of data or a task") from None
    hints = {name: _annotation(parameter) for name, parameter in parameters.items()}
    arguments = {key: text for key, text in settings.items() if key in hints or key not in OF_ENVIRONMENTS}
    try:
        return maker(**checked(reference, arguments, hints))
    except TypeError as error:
        raise ConfigurationError(f"task {reference} cannot be made: {error}; write {reference}?key=value") from error


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
    description="a task, an environment or rows of yours, or a class or function that makes one",
    family="data",
    make=own_task,
    held_out=partial(own_task, held_out=True),
)

"""Where scenarios come from and how they are verified. `find` makes a task from its name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hocket.core.discovery import Declaration
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.names import TASKS, parse_name
from hocket.tasks.form import TaskForm

if TYPE_CHECKING:
    from hocket.stages import Task

__all__ = ["TaskEntry", "TaskForm", "catalogue", "find", "of"]

FIRST = ("sums", "reasoning-gym:NAME", "calculator", "code", "PATH.jsonl", "gym:ENVIRONMENT")
"""What a newcomer should read first; the rest follows by name, a file of one's own last."""


class TaskEntry(NamedTuple):
    """A line of the catalogue: what to give to `--task`, and what it is."""

    name: str
    description: str


def forms() -> list[Declaration]:
    """Every declared form, in the order in which they are shown."""

    def place(one: Declaration) -> tuple[int, bool, str]:
        return FIRST.index(one.name) if one.name in FIRST else len(FIRST), one.name == "FILE.py:NAME", one.name

    return sorted(TASKS.declared.values(), key=place)


def catalogue(reasoning_gym: bool = False) -> list[TaskEntry]:
    """What `find` understands; with `reasoning_gym` each of its datasets too (importing it takes seconds)."""
    entries = [TaskEntry(form.name, form.description) for form in forms()]
    if not reasoning_gym:
        return entries
    from hocket.tasks import reasoning

    return [*entries, *(TaskEntry(f"reasoning-gym:{name}", text) for name, text in reasoning.datasets().items())]


def find(name: str) -> Task:
    """The task called `name`; see `catalogue`. Settings follow a question mark: `NAME?key=value&key=value`.

    Raises:
        ConfigurationError: for an unknown name, with the nearest, or settings or files that are wrong.
    """
    base, settings = parse_name(name.strip())
    fitting = {form: found for form in TASKS.declared if (found := _pattern(form).fullmatch(base))}
    if not fitting:
        raise ConfigurationError(f"there is no task {name!r}{_hint(base)}")
    # `gym:x.py:y` is a form of gym, not a file: what says more before its first gap comes first.
    form = max(fitting, key=lambda form: len(_GAP.split(form)[0]))
    texts = iter(fitting[form].groups())
    return cast(TaskForm, TASKS.load(form)).make(_GAP.sub(lambda _: next(texts), form), settings)


def of(given: Any) -> Task:
    """A task from Python: itself, or of rows of data or an environment, or what a class or function makes.

    Raises:
        ConfigurationError: for rows or environments that cannot be used, and what is none of these.
    """
    if hasattr(given, "scenario") and not isinstance(given, type):
        return cast("Task", given)
    from hocket.agents.environments.user_environments import name_of
    from hocket.tasks.data import from_rows, is_rows

    if is_rows(given):
        return from_rows(given)
    # Found by name, since tasks of users need the tasks that find others by name.
    users: Any = importlib.import_module(TASKS.own["FILE.py:NAME"].module)
    return cast("Task", users.task_of(given, name_of(given)))


_GAP = re.compile(r"\b[A-Z]+\b")
"""A word that stands for any text."""


def _pattern(form: str) -> re.Pattern[str]:
    """The names that a form fits: any text in its gaps, and underscores for hyphens outside them."""
    parts = (re.sub(r"\\-|_", "[-_]", re.escape(part)) for part in _GAP.split(form))
    return re.compile("(.*)".join(parts), re.DOTALL)


def _hint(base: str) -> str:
    """The nearest name, datasets of reasoning-gym included when their files can be seen without importing it."""
    if base.endswith(".py"):
        return f"; write {base}:NAME for a task, an environment or rows in that file"
    if Path(base).is_file():
        return "; a data file must end in .jsonl, .csv or .parquet"
    from hocket.tasks.reasoning import dataset_files

    own = {name: name for name in TASKS.declared if not _GAP.search(name)}
    names = {**own, **{name: f"reasoning-gym:{name}" for name in dataset_files() if name not in own}}
    close = nearest(base.rpartition(":")[2], names)
    if close.startswith("; did you mean "):
        word = close.removeprefix("; did you mean '").removesuffix("'?")
        return f"; did you mean {names[word]!r}?"
    return f"; choose from {', '.join(form.name for form in forms())}"

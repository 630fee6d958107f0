"""Tasks: sources of scenarios, with their verifiers. `find` makes a task from its name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hocket.core.discovery import Declaration
from hocket.core.errors import ConfigurationError, near_hint, near_names
from hocket.core.names import TASKS, parse_name
from hocket.tasks.form import TaskForm

if TYPE_CHECKING:
    from hocket.stages import Task

__all__ = ["TaskEntry", "TaskForm", "catalogue", "evaluated_on", "find", "of"]

FIRST = ("sums", "reasoning-gym:NAME", "calculator", "code", "PATH.jsonl", "hub:NAME", "gym:ENVIRONMENT")
"""The first tasks in lists, for new users; the others follow by name, and a user's file is last."""


class TaskEntry(NamedTuple):
    """A line of the catalogue: the value of `--task`, and a description."""

    name: str
    description: str


def forms() -> list[Declaration]:
    """Every declared form, in the order of lists."""

    def place(declaration: Declaration) -> tuple[int, bool, str]:
        name = declaration.name
        return FIRST.index(name) if name in FIRST else len(FIRST), name == "FILE.py:NAME", name

    return sorted(TASKS.declared.values(), key=place)


def catalogue(reasoning_gym: bool = False) -> list[TaskEntry]:
    """The names that `find` understands; with `reasoning_gym` also its datasets (importing it takes seconds)."""
    entries = [TaskEntry(form.name, form.description) for form in forms()]
    if not reasoning_gym:
        return entries
    from hocket.tasks import reasoning

    return [*entries, *(TaskEntry(f"reasoning-gym:{name}", text) for name, text in reasoning.datasets().items())]


def find(name: str) -> Task:
    """The task called `name`; see `catalogue`. Settings follow a question mark: `NAME?key=value&key=value`.

    The setting `eval_task` of any task names another, percent-encoded, to evaluate on.

    Raises:
        ConfigurationError: for an unknown name, with the nearest, or settings or files that are wrong.
    """
    base, settings = parse_name(name.strip())
    other = settings.pop("eval_task", None)
    task = _made(name, base, settings)
    return task if other is None else evaluated_on(task, other, name)


def evaluated_on(task: Any, other: Any, name: str | None = None) -> Task:
    """A task with the scenarios of another to evaluate on; both are names, or what `of` takes.

    Raises:
        ConfigurationError: for tasks that cannot be used, or that do not go together.
    """
    from hocket.tasks.separate_evaluation import EvaluatedTask

    if isinstance(other, str):
        evaluated = _made(other, *parse_name(other.strip()), held_out=True)
    else:
        evaluated = of(other, held_out=True)
    return EvaluatedTask(find(task) if isinstance(task, str) else of(task), evaluated, name)


def _made(name: str, base: str, settings: dict[str, str], *, held_out: bool = False) -> Task:
    """The task of a name and its settings; `held_out`: which is only evaluated on."""
    fitting = {form: match for form in TASKS.declared if (match := _pattern(form).fullmatch(base))}
    if not fitting:
        raise ConfigurationError(f"there is no task {name!r}{_hint(base)}")
    # `gym:x.py:y` is a form of gym, not a file: what says more before its first gap comes first.
    form = max(fitting, key=lambda form: len(_GAP.split(form)[0]))
    texts = iter(fitting[form].groups())
    declared = cast(TaskForm, TASKS.load(form))
    make = declared.held_out if held_out and declared.held_out is not None else declared.make
    return make(_GAP.sub(lambda _: next(texts), form), settings)


def of(given: Any, held_out: bool = False) -> Task:
    """A task from Python: a task, rows of data, an environment, or what a class or function makes of these.

    With `held_out` rows of data are all to be evaluated on.

    Raises:
        ConfigurationError: for rows or environments that cannot be used, and for an object of another kind.
    """
    if hasattr(given, "scenario") and not isinstance(given, type):
        return cast("Task", given)
    from hocket.agents.environments.user_environments import name_of
    from hocket.tasks.data import from_rows, is_rows

    if is_rows(given):
        return from_rows(given, eval_share=1.0) if held_out else from_rows(given)
    # Found by name, since tasks of users need the tasks that find others by name.
    users: Any = importlib.import_module(TASKS.own["FILE.py:NAME"].module)
    return cast("Task", users.task_of(given, name_of(given), held_out=held_out))


_GAP = re.compile(r"\b[A-Z]+\b")
"""A word in capitals, which stands for any text."""


def _pattern(form: str) -> re.Pattern[str]:
    """The names that match a form: any text in its gaps, and underscores or hyphens outside them."""
    parts = (re.sub(r"\\-|_", "[-_]", re.escape(part)) for part in _GAP.split(form))
    return re.compile("(.*)".join(parts), re.DOTALL)


def _hint(base: str) -> str:
    """The nearest names, and where to look.

    Datasets of reasoning-gym count where their files are seen without importing it, and environments of Gymnasium.
    """
    if base.endswith(".py"):
        return f"; write {base}:NAME for a task, an environment or rows in that file"
    if Path(base).is_file():
        return "; a data file must end in .jsonl, .csv or .parquet"
    from hocket.tasks.gym import environment_names
    from hocket.tasks.reasoning import dataset_files

    names = {name: f"reasoning-gym:{name}" for name in dataset_files()}
    if re.search(r"-v\d+$", base):
        names |= {name: f"gym:{name}" for name in environment_names()}
    names |= {name: name for name in TASKS.declared}
    word = base.rpartition(":")[2]
    close = [names[name] for name in near_names(word, names)]
    return near_hint(close, "`hocket tasks --search WORD` finds others")

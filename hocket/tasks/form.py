"""How a task is named, described and made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hocket.core.discovery import Registry, constant

if TYPE_CHECKING:
    from hocket.stages import Task


@dataclass(frozen=True)
class TaskForm:
    """What `--task` understands. `hocket.tasks.find` finds one by its name, its first argument in the source.

    Attributes:
        name: as written, without settings; words in capitals stand for any text, as in `gym:ENVIRONMENT`.
        description: in a line.
        make: the task of a name without settings, and the settings as text.
        family: the part of the list that a task for general use belongs to; a task of one paper is listed with it.
        drawn_as: the name in the keys of random draws and in ids of scenarios, where it is not `name`: a task that is
            renamed keeps its draws.
    """

    name: str
    description: str
    make: Callable[[str, Mapping[str, str]], Task]
    family: str = ""
    drawn_as: str = ""


@dataclass(frozen=True)
class TaskVariant:
    """A task or kind of tasks that a `TaskForm` finds by name, and that stands in another file than the form.

    Attributes:
        name: as the form asks for it, such as `mapf:planned`. description: in a line; lists show the form's.
        make: as of a form.
    """

    name: str
    description: str
    make: Callable[[str, Mapping[str, str]], Task]


VARIANTS = Registry("variant of a task", ("hocket.tasks", "hocket.zoo", "hocket.methods"), constant("TaskVariant"))
"""Constants that are a `TaskVariant`."""


def variant(name: str) -> TaskVariant:
    """The variant of this name; imports its file.

    Raises:
        ConfigurationError: for an unknown name, with the nearest.
    """
    form: TaskVariant = VARIANTS.load(name)
    return form

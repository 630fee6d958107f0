"""The name, description and maker of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hocket.core.discovery import Registry, constant

if TYPE_CHECKING:
    from hocket.stages import Task


@dataclass(frozen=True)
class TaskForm:
    """A form of `--task`. `hocket.tasks.find` finds it by its name, which is its first argument in the source.

    Attributes:
        name: the name without settings; words in capitals stand for any text, as in `gym:ENVIRONMENT`.
        description: one line.
        make: makes the task from a name without settings, and the settings as text.
        family: the part of the list for a task of general use; a task of one paper is listed with it.
        held_out: makes the task to be evaluated on alone, where that differs: all rows of data are for evaluation then.
        drawn_as: the name in keys of random draws and ids of scenarios, if it is not `name`: a renamed task keeps its
            draws.
    """

    name: str
    description: str
    make: Callable[[str, Mapping[str, str]], Task]
    family: str = ""
    drawn_as: str = ""
    held_out: Callable[[str, Mapping[str, str]], Task] | None = None


@dataclass(frozen=True)
class TaskVariant:
    """A task or kind of tasks that a `TaskForm` finds by name in another file.

    Attributes:
        name: the full name, such as `mapf:planned`. description: one line; lists show the form's.
        make: as in a form.
    """

    name: str
    description: str
    make: Callable[[str, Mapping[str, str]], Task]


VARIANTS = Registry("variant of a task", ("hocket.tasks", "hocket.zoo", "hocket.methods"), constant("TaskVariant"))
"""The registry of `TaskVariant` constants."""


def variant(name: str) -> TaskVariant:
    """The variant of this name; imports its file.

    Raises:
        ConfigurationError: for an unknown name, with the nearest.
    """
    form: TaskVariant = VARIANTS.load(name)
    return form

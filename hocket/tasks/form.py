"""How a task is named, described and made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hocket.stages import Task


@dataclass(frozen=True)
class TaskForm:
    """What `--task` understands. `hocket.tasks.find` finds one by its name, the first thing it says, in the source.

    Attributes:
        name: as written, without settings; words in capitals stand for any text, as in `gym:ENVIRONMENT`.
        description: in a line.
        make: the task of a name without settings, and the settings as text.
    """

    name: str
    description: str
    make: Callable[[str, Mapping[str, str]], Task]

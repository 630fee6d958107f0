"""A pool: the scenarios of a task that take part, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hocket.core.keys import Key
from hocket.curriculum.shuffled import Shuffled
from hocket.stages import Curriculum, LedgerView, Task, walk
from hocket.types import Scenario

Made = TypeVar("Made")

OF_ENDLESS = 256
"""How many scenarios of an endless task are in a pool, unless a number is set."""


@dataclass(frozen=True)
class Members:
    """The scenarios of a pool by place: those of the first `most` positions of `Shuffled`.

    Where `most` is None all of a finite task are in it, and `OF_ENDLESS` of an endless one.
    """

    task: Task
    most: int | None
    ledger: LedgerView
    key: Key

    @property
    def size(self) -> int:
        """How many there are."""
        size = self.task.size("train")
        return (self.most or OF_ENDLESS) if size is None else min(self.most or size, size)

    def __getitem__(self, place: int) -> Scenario:
        return Shuffled(prompts=1)(self.task, place, 1, self.ledger, self.key)[0]


class Kept(Generic[Made]):
    """What was made of a pool's scenarios, which takes long: of the last pool, and no part of any state.

    Another task, another key and a task that has grown or shrunk make another pool; what a task has at a number stays
    as it is. Copies begin anew.
    """

    def __init__(self) -> None:
        self._last: tuple[Task, tuple[object, ...], Made] | None = None

    def __reduce__(self) -> tuple[type[Kept[Made]], tuple[()]]:
        return Kept, ()

    def of(self, members: Members, make: Callable[[Members], Made]) -> Made:
        """What `make` made of these members."""
        task, pool = members.task, (members.task.size("train"), members.size, members.key)
        if self._last is None or self._last[0] is not task or self._last[1] != pool:
            self._last = task, pool, make(members)
        return self._last[2]


def at_least_one(**numbers: int | None) -> None:
    """Raises `ValueError` for a number below 1; None is no number."""
    if any(number is not None and number < 1 for number in numbers.values()):
        *names, last = numbers
        *values, least = map(str, numbers.values())
        raise ValueError(f"{', '.join(names)} and {last} must be at least 1, not {', '.join(values)} and {least}")


def left_out(curriculum: Curriculum, task: Task) -> list[str]:
    """In a sentence, that a curriculum asks a part of a task alone; nothing where it asks all."""
    pools: list[int | None] = [stage.pool for stage in walk(curriculum) if hasattr(stage, "pool")]
    size = task.size("train")
    if not pools or (size is not None and None in pools):
        return []
    largest = max(pool or OF_ENDLESS for pool in pools)
    if size is None:
        return [
            f"task {task.name} is endless, and {largest} of its scenarios take part, which come again and again "
            "(curriculum.pool)"
        ]
    told = f"curriculum.pool = {largest}: {largest} of the {size} training scenarios of task {task.name} take part"
    return [f"{told}, and the others are never asked; null takes all"] if largest < size else []

"""Pools: the subset of a task's scenarios that a curriculum draws from, and data computed for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.stages import Curriculum, LedgerView, Task, walk
from hocket.types import Scenario

Made = TypeVar("Made")

OF_ENDLESS = 256
"""The default size of the pool of an endless task."""


@dataclass(frozen=True)
class PoolMembers:
    """The scenarios of a pool by place: those of the first `most` positions of `Shuffled`.

    If `most` is None, it contains all scenarios of a finite task, and `OF_ENDLESS` of an endless one.
    """

    task: Task
    most: int | None
    ledger: LedgerView
    key: Key

    @property
    def size(self) -> int:
        """The number of scenarios."""
        size = self.task.size("train")
        return (self.most or OF_ENDLESS) if size is None else min(self.most or size, size)

    def __getitem__(self, place: int) -> Scenario:
        return Shuffled(prompts=1)(self.task, place, 1, self.ledger, self.key)[0]


class PoolCache(Generic[Made]):
    """A cache of data computed from a pool's scenarios, for the last pool only. It is not part of any state.

    Another task, key or task size makes another pool; the scenario at a number of a task does not change. Copies start
    empty.
    """

    def __init__(self) -> None:
        self._last: tuple[Task, tuple[object, ...], Made] | None = None

    def __reduce__(self) -> tuple[type[PoolCache[Made]], tuple[()]]:
        return PoolCache, ()

    def of(self, members: PoolMembers, make: Callable[[PoolMembers], Made]) -> Made:
        """The result of `make` for these members."""
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
    """A message that a curriculum draws from a part of the task only; empty if it draws from all scenarios."""
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
    message = f"curriculum.pool = {largest}: {largest} of the {size} training scenarios of task {task.name} take part"
    return [f"{message}, and the others are never asked; null takes all"] if largest < size else []

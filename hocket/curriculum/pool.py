"""A pool: the scenarios of a task that take part, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hocket.core.keys import Key
from hocket.curriculum.shuffled import Shuffled
from hocket.stages import LedgerView, Task
from hocket.types import Scenario

Made = TypeVar("Made")


@dataclass(frozen=True)
class Members:
    """The scenarios of a pool by place: those of the first `most` positions of `Shuffled`."""

    task: Task
    most: int
    ledger: LedgerView
    key: Key

    @property
    def size(self) -> int:
        """How many there are."""
        size = self.task.size("train")
        return self.most if size is None else min(self.most, size)

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

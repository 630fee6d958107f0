"""Ranks that are threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hocket.distributed.cluster.leaves import Ranks, SingleProcess


@dataclass
class Table:
    """Where threads that stand for ranks leave what they exchange."""

    size: int
    given: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=30)

    def round(self, rank: int, given: Any) -> dict[int, Any]:
        self.given[rank] = given
        self.barrier.wait()
        found = dict(self.given)
        self.barrier.wait()
        return found


@dataclass(frozen=True)
class Thread:
    """A rank that is a thread."""

    rank: int
    table: Table

    @property
    def size(self) -> int:
        return self.table.size

    def exchanged(self, tensor: Tensor, other: int) -> Tensor:
        found: Tensor = self.table.round(self.rank, tensor.clone())[other]
        return found

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        found = self.table.round(self.rank, tensor.clone())
        return [found[rank] for rank in range(self.size)]

    def swapped(self, given: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        found = self.table.round(self.rank, [one.clone() for one in given])
        mine = [found[rank][self.rank] for rank in range(self.size)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        assert all(len(mine[rank]) == sizes[rank] for rank in others)
        return mine


def on_ranks(size: int, work: Callable[[Any], Any]) -> list[Any]:
    """What `work` gives on every rank."""
    if size == 1:
        alone: Ranks = SingleProcess()
        return [work(alone)]
    table, found, wrong = Table(size), dict[int, Any](), list[BaseException]()

    def run(rank: int) -> None:
        try:
            found[rank] = work(Thread(rank, table))
        except BaseException as error:
            wrong.append(error)
            table.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return [found[rank] for rank in range(size)]

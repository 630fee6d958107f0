"""The default curriculum: every scenario once per pass, in random order."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class Shuffled(Curriculum):
    """`prompts` scenarios per step, without replacement within a pass over the data; endless tasks never repeat."""

    prompts: int = 16

    def __post_init__(self) -> None:
        if self.prompts < 1:
            raise ValueError(f"prompts must be at least 1, not {self.prompts}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [task.scenario("train", self._number(asked + i, task, key)) for i in range(count)]

    def again(self, task: Task, first: int, position: int) -> int:
        """The number of the position's pass, counted from that of `first`."""
        if type(self).__call__ is not Shuffled.__call__:
            return super().again(task, first, position)
        size = task.size("train")
        return 0 if size is None else position // size - first // size

    def _number(self, position: int, task: Task, key: Key) -> int:
        """The scenario at `position` of the run: a permutation per pass, or a number no other position has."""
        size = task.size("train")
        if size is None:
            # Runs with different seeds draw different problems of an endless task.
            return key.derive("offset").word % 2**31 + position
        epoch, place = divmod(position, size)
        return int(permutation(key.derive("pass", epoch), size)[place])


@functools.lru_cache(maxsize=16)
def permutation(key: Key, size: int) -> NDArray[np.int64]:
    """A random order of `size` places, cached because a pass spans many calls."""
    return key.numpy().permutation(size)

"""Scenarios that belong together, asked in one step."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.curriculum.shuffled import Shuffled
from hocket.keys import Key
from hocket.stages import LedgerView, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class Families(Shuffled):
    """Families of `family` scenarios of consecutive numbers, such as paraphrases of one question, one after another.

    Families come in random order, each once per pass over the data; a number of `prompts` that is no multiple of
    `family` splits one. With `family` 1 it is `Shuffled`. A last family may be smaller.
    """

    family: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family < 1:
            raise ValueError(f"family must be at least 1, not {self.family}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [task.scenario("train", self._member(asked + place, task, key)) for place in range(count)]

    def _member(self, position: int, task: Task, key: Key) -> int:
        size = task.size("train")
        if size is None:
            start = key.derive("offset").word % 2**31 // self.family * self.family
            return start + position
        families = -(-size // self.family)
        epoch, place = divmod(position, size)
        order = key.derive("pass", epoch).numpy().permutation(families).tolist()
        for number in order:
            here = min(self.family, size - number * self.family)
            if place < here:
                return int(number) * self.family + place
            place -= here
        raise AssertionError("a place within the pass belongs to some family")

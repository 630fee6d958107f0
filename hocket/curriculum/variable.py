"""A choice of scenarios made before training: those on which the start model's rewards vary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hocket.curriculum.shuffled import Shuffled
from hocket.keys import Key
from hocket.stages import LedgerView, Task
from hocket.types import Scenario


def sample_variance(rewards: Sequence[float]) -> float:
    """`sum (r - mean)^2 / (n - 1)`; 0 of fewer than two rewards. Exactly 0 where all are equal."""
    if len(rewards) < 2 or min(rewards) == max(rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)


def variable(rewards: Mapping[int, Sequence[float]], *, threshold: float = 0.0, share: float = 1.0) -> tuple[int, ...]:
    """The scenarios whose rewards' sample variance exceeds `threshold`, at most `share` of all, the most variable.

    `rewards` holds, by number of the scenario, what the start model earned in repeated attempts. Equally variable
    scenarios are taken in order of their numbers. The result is in rising order, for `Chosen`.
    """
    spread = {number: sample_variance(found) for number, found in rewards.items()}
    kept = sorted((number for number in spread if spread[number] > threshold), key=lambda n: (-spread[n], n))
    return tuple(sorted(kept[: max(1, round(share * len(rewards)))]))


@dataclass(frozen=True)
class Chosen(Shuffled):
    """Only the training scenarios `numbers`, shuffled anew in every pass; without any, all of them.

    Temporal-R1 (arXiv 2506.01908) trains on the scenarios that `variable` keeps: groups that are neither always right
    nor always wrong.
    """

    numbers: tuple[int, ...] = ()

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        if not self.numbers:
            return super().__call__(task, asked, count, ledger, key)
        return [task.scenario("train", self._chosen(asked + place, key)) for place in range(count)]

    def _chosen(self, position: int, key: Key) -> int:
        epoch, place = divmod(position, len(self.numbers))
        return self.numbers[int(key.derive("pass", epoch).numpy().permutation(len(self.numbers))[place])]

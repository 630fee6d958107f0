"""Scenarios asked more often the more often they are failed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hocket.curriculum.shuffled import Shuffled
from hocket.keys import Key
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class ByFailure(Curriculum):
    """Prioritised sampling: with probability proportional to `1 - s`, s a scenario's success rate so far (Kimi k1.5).

    Every scenario of the pool is asked once in random order, then `count` different ones are drawn (Gumbel top-k).
    The success rate is the mean of its last `window` groups' rewards, cut to [0, 1].

    Attributes:
        prompts: scenarios per step. pool: how many scenarios take part; all of a smaller task.
        floor: added to `1 - s`, so that solved scenarios come back now and then. window: past groups that count.
    """

    prompts: int = 16
    pool: int = 256
    floor: float = 0.05
    window: int = 4

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.pool < 1 or self.window < 1:
            raise ValueError("prompts, pool and window must be at least 1")
        if self.floor <= 0:
            raise ValueError(f"floor must be positive, not {self.floor}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        size = task.size("train")
        pool = self.pool if size is None else min(self.pool, size)
        first = [self._member(task, place, ledger, key) for place in range(asked, min(asked + count, pool))]
        if len(first) == count:
            return first
        members = [self._member(task, place, ledger, key) for place in range(pool)]
        weight = np.array([self.floor + 1 - self._success(ledger, member.id) for member in members])
        chosen = list(first)
        while len(chosen) < count:
            noise = key.derive("failures", asked + len(chosen)).numpy().gumbel(size=pool)
            order = np.argsort(-(np.log(weight) + noise), kind="stable")
            chosen += [members[place] for place in order[: count - len(chosen)]]
        return chosen

    def _member(self, task: Task, place: int, ledger: LedgerView, key: Key) -> Scenario:
        return Shuffled(prompts=1)(task, place, 1, ledger, key)[0]

    def _success(self, ledger: LedgerView, scenario: str) -> float:
        known = ledger.history(scenario)[-self.window :]
        return float(np.clip(np.mean(known), 0.0, 1.0)) if known else 0.0

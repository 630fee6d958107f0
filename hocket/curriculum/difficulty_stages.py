"""A pool of scenarios in stages of increasing difficulty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.curriculum.pool import PoolCache, PoolMembers, at_least_one
from hocket.curriculum.random_order import permutation
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario


def stages_of(difficulties: Sequence[float], count: int) -> list[int]:
    """The stage of each scenario, 0 to `count - 1`: stages of equal size in order of difficulty.

    An easier scenario is never in a later stage. Ties keep their order.
    """
    order = sorted(range(len(difficulties)), key=lambda place: (difficulties[place], place))
    stages = [0] * len(order)
    for rank, place in enumerate(order):
        stages[place] = rank * count // len(order)
    return stages


@dataclass(frozen=True)
class Staged(Curriculum):
    """A pool of scenarios in consecutive stages by `difficulty`.

    Each stage lasts `per_stage` scenarios, drawn in passes over the stage. For the rest of the run the curriculum is
    `then`, from its first position on; without it, passes over the whole pool.

    Attributes:
        prompts: scenarios per step. stages: the number of stages. per_stage: scenarios of each.
        pool: the size of the pool, as in `hocket.curriculum.Weighted`.
        order: `staged`, or `shuffled`, which skips the stages.

    Raises:
        ConfigurationError: on a call, for more stages than scenarios.
    """

    prompts: int = 16
    stages: int = 3
    per_stage: int = 160
    pool: int | None = None
    order: Literal["staged", "shuffled"] = "staged"
    then: Curriculum | None = None
    _kept: PoolCache[list[list[int]]] = field(
        default_factory=lambda: PoolCache[list[list[int]]](), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, stages=self.stages, per_stage=self.per_stage, pool=self.pool)
        if self.order not in ("staged", "shuffled"):
            raise ValueError(f"order must be staged or shuffled, not {self.order!r}")

    def difficulty(self, scenario: Scenario) -> float:
        """The difficulty of a scenario, in any unit."""
        raise NotImplementedError

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = PoolMembers(task, self.pool, ledger, key)
        if self.stages > members.size:
            raise ConfigurationError(
                f"curriculum: {members.size} tasks make no {self.stages} stages; set curriculum.stages to "
                f"{members.size} or less"
            )
        stages = self._kept.of(members, self._sorted)
        staged_count = count if self.then is None else min(max(self._begun - asked, 0), count)
        scenarios = [members[self._place(stages, asked + number, key)] for number in range(staged_count)]
        if self.then is not None and staged_count < count:
            scenarios += self.then(task, asked + staged_count - self._begun, count - staged_count, ledger, key)
        return scenarios

    def _sorted(self, members: PoolMembers) -> list[list[int]]:
        """The places of each stage."""
        numbers = stages_of([self.difficulty(members[place]) for place in range(members.size)], self.stages)
        return [[place for place, number in enumerate(numbers) if number == stage] for stage in range(self.stages)]

    @property
    def _begun(self) -> int:
        """The position of the first scenario after the stages."""
        return self.stages * self.per_stage if self.order == "staged" else 0

    def stage_at(self, position: int) -> int | None:
        """The stage of the scenario at `position` of the run; None after the stages."""
        return position // self.per_stage if position < self._begun else None

    def _place(self, stages: Sequence[Sequence[int]], position: int, key: Key) -> int:
        stage = self.stage_at(position)
        among = range(sum(map(len, stages))) if stage is None else stages[stage]
        begun = self._begun if stage is None else stage * self.per_stage
        turn, place = divmod(position - begun, len(among))
        order = permutation(key.derive("stage", -1 if stage is None else stage, turn), len(among))
        return among[int(order[place])]

"""SRPO: what was solved every time is not asked again (Zhang et al., arXiv:2504.14286).

History resampling: the rewards of each pass are kept, and the next pass holds the scenarios that were not solved by
every sample: mixed ones and those that all samples failed, which may be learnt later (`Unsolved`). The update is
GRPO's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.curriculum.pool import PoolCache, PoolMembers, at_least_one
from hocket.curriculum.scenario_worth import Value, Worths
from hocket.methods.base.grpo import GRPO
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class Open(Value):
    """1 for a scenario whose last group has a mean reward below `solved`, and before the first; else 0."""

    solved: float = 1.0

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return float(not rewards or rewards[-1] < self.solved)


@dataclass(frozen=True)
class Unsolved(Curriculum):
    """Passes over the scenarios whose last group was not solved by every sample: SRPO (arXiv 2504.14286).

    Each pass asks every scenario of the pool once in random order. In place of one that its last group solved
    throughout, another is asked that it did not, drawn at random, none twice in a step as long as there are others. So
    a pass goes on with what is left, and its length stays the pool's. Where everything is solved, all is asked.

    Attributes:
        prompts: scenarios per step. pool: how many take part, as in `hocket.curriculum.Weighted`.
        solved: mean reward of a group whose samples are all right.
    """

    prompts: int = 16
    pool: int | None = None
    solved: float = 1.0
    _kept: PoolCache[Worths] = field(default_factory=lambda: PoolCache[Worths](), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, pool=self.pool)

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = PoolMembers(task, self.pool, ledger, key)
        open_ = self._kept.of(members, Worths).by(Open(self.solved), ledger) > 0
        chosen: list[int] = []
        for position in range(asked, asked + count):
            turn, step = divmod(position, members.size)
            own = int(_order(key, turn, members.size)[step])
            chosen.append(own if open_[own] and own not in chosen else self._other(position, open_, chosen, own, key))
        return [members[place] for place in chosen]

    def _other(self, position: int, open_: NDArray[np.bool_], chosen: list[int], own: int, key: Key) -> int:
        left = open_.copy()
        left[chosen] = False
        among = np.flatnonzero(left if left.any() else open_)
        return int(among[key.derive("instead", position).numpy().integers(len(among))]) if len(among) else own


@functools.lru_cache(maxsize=2)
def _order(key: Key, turn: int, size: int) -> NDArray[np.int64]:
    """The places in the order of a pass; the first is that of the pool itself."""
    return np.arange(size) if turn == 0 else key.derive("again", turn).numpy().permutation(size)


SRPO = GRPO.but(
    name="srpo",
    title="Two-staged history-resampling policy optimisation",
    source="Zhang et al., SRPO, arXiv:2504.14286",
    family="data-and-rollout",
    catalogue_ids=("srpo",),
    axes=("data", "credit", "reward"),
    formula="keep(q) = [mean_i r_i(q) < 1] by q's last group;  A_i = (R_i - mean_g R)/(std_g R + eps)",
    conventions={
        **GRPO.conventions,
        "resampling": "as soon as a group is known; the paper rebuilds the set at the end of a pass, with equal result "
        "for the passes that follow",
        "passes": "of all of a finite task and 256 of an endless one (curriculum.pool); what is left is asked "
        "more often instead",
        "stages": "mathematics alone, then mathematics and code: a plan of two phases with a task each",
    },
    curriculum=Unsolved(),
)

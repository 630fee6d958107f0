"""SRPO: what was solved every time is not asked again (Zhang et al., arXiv:2504.14286).

History resampling: the rewards of each pass are kept, and the next pass holds the scenarios that were not solved by
every sample: mixed ones and those that all samples failed, which may be learnt later (`Unsolved`). The update is
GRPO's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hocket.core.keys import Key
from hocket.curriculum.weighted import FoundIds, Members
from hocket.methods.base.grpo import GRPO
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class Unsolved(Curriculum):
    """Passes over the scenarios whose last group was not solved by every sample: SRPO (arXiv 2504.14286).

    Each pass asks every scenario of the pool once in random order. In place of one that its last group solved
    throughout, another is asked that it did not, drawn at random, none twice in a step as long as there are others. So
    a pass goes on with what is left, and its length stays the pool's. Where everything is solved, all is asked.

    Attributes:
        prompts: scenarios per step. pool: how many take part; all of a smaller task.
        solved: mean reward of a group whose samples are all right.
    """

    prompts: int = 16
    pool: int = 256
    solved: float = 1.0
    _found: FoundIds = field(default_factory=FoundIds, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.pool < 1:
            raise ValueError(f"prompts and pool must be at least 1, not {self.prompts} and {self.pool}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = Members(task, self.pool, ledger, key)
        open_ = [place for place, name in enumerate(self._found.of(members)) if self._open(name, ledger)]
        chosen: list[int] = []
        for position in range(asked, asked + count):
            turn, step = divmod(position, members.size)
            # The first pass is that of the pool itself.
            own = step if turn == 0 else int(key.derive("again", turn).numpy().permutation(members.size)[step])
            chosen.append(own if own in open_ and own not in chosen else self._other(position, open_, chosen, own, key))
        return [members[place] for place in chosen]

    def _open(self, scenario: str, ledger: LedgerView) -> bool:
        rewards = ledger.history(scenario)
        return not rewards or rewards[-1] < self.solved

    def _other(self, position: int, open_: list[int], chosen: list[int], own: int, key: Key) -> int:
        left = [place for place in open_ if place not in chosen] or open_ or [own]
        return left[int(key.derive("instead", position).numpy().integers(len(left)))]


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
        "passes": "of a pool of 256 scenarios (curriculum.pool); what is left is asked more often instead",
        "stages": "mathematics alone, then mathematics and code: a plan of two phases with a task each",
    },
    curriculum=Unsolved(),
)

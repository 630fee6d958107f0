"""SARI: reasoning in sections about sounds, and GRPO on questions from easy to hard (Wen et al., arXiv:2504.15900).

Lessons warm the model up with thoughts in fixed sections, or free ones. Then GRPO is paid for the right answer and
for the form, `SectionFormat`, over a pool of questions in the order of their measured pass rates, `PassRateOrder`. Only
the abstract was at hand: the names of the sections, the weights and how pass rates are measured are chosen here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.curriculum.pool import PoolMembers, at_least_one
from hocket.curriculum.random_order import permutation
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.methods.group_relative.sari.task import SECTIONS
from hocket.rewards.members import with_return
from hocket.rewards.tags import answers_well, thought_of
from hocket.stages import LedgerView, Shaping, State, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class SectionFormat(Shaping):
    """Adds `weight` for one answer in tags behind a thought that is made of the sections in order, none empty.

    A section begins a line with its name and a colon. Without `sections` any filled thought will do. Reads `text`, the
    last turn's.

    Attributes:
        sections: their names.
    """

    weight: float = 1.0
    sections: tuple[str, ...] = SECTIONS

    def __post_init__(self) -> None:
        if not all(name.strip() for name in self.sections):
            raise ValueError(f"sections must be names, not {list(self.sections)}")

    def __call__(self, batch: Batch) -> Batch:
        texts = TEXT.read(batch, "SectionFormat")
        marks = torch.tensor([float(self.fits(text or "")) for text in texts], dtype=torch.float64)
        return with_return(batch, returns(batch) + self.weight * marks)

    def fits(self, text: str) -> bool:
        """Whether a response has the form."""
        thought = thought_of(text)
        if thought is None or not thought.strip() or not answers_well(text):
            return False
        if not self.sections:
            return True
        heads = "|".join(map(re.escape, self.sections))
        before, *parts = re.split(rf"(?m)^[ \t]*({heads}):", thought)
        return not before.strip() and tuple(parts[::2]) == self.sections and all(part.strip() for part in parts[1::2])


@dataclass(frozen=True)
class PassRateOrder(RememberingCurriculum):
    """Passes over a pool. The first is in random order and measures; each later one is in order of measured pass rates.

    The pass rate of a scenario is the mean reward of its latest group when the pass begins; one without a record counts
    as never solved. Scenarios of one rate are in random order.

    Attributes:
        prompts: scenarios per step. pool: its size, as in `hocket.curriculum.Weighted`.
        order: `easy` ones first, `hard` ones first, or `shuffled`.
    """

    prompts: int = 16
    pool: int | None = 96
    order: Literal["easy", "hard", "shuffled"] = "easy"

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, pool=self.pool)
        if self.order not in ("easy", "hard", "shuffled"):
            raise ValueError(f"order must be easy, hard or shuffled, not {self.order!r}")

    def init(self) -> State:
        return {"passes": 0, "left": []}

    def ask_with(
        self, state: State, task: Task, asked: int, count: int, ledger: LedgerView, key: Key
    ) -> tuple[list[Scenario], State]:
        members, drawn = PoolMembers(task, self.pool, ledger, key), list[Scenario]()
        passes, left = int(state["passes"]), [int(place) for place in state["left"]]
        while len(drawn) < count:
            if not left:
                left, passes = self._ordered(members, passes, key), passes + 1
            drawn.append(members[left.pop(0)])
        return drawn, {"passes": passes, "left": left}

    def _ordered(self, members: PoolMembers, passes: int, key: Key) -> list[int]:
        """The places of the pool in the order of the pass after so many."""
        places: list[int] = permutation(key.derive("pass", passes), members.size).tolist()
        if not passes or self.order == "shuffled":
            return places
        histories = {place: members.ledger.history(members[place].id) for place in places}
        rates = {place: history[-1] if history else 0.0 for place, history in histories.items()}
        return sorted(places, key=lambda place: rates[place], reverse=self.order == "easy")


SARI = GRPO_KL.but(
    name="sari",
    title="SARI: sectioned thoughts about sounds, and GRPO from easy to hard",
    source="Wen et al., SARI: Structured Audio Reasoning via Curriculum-Guided Reinforcement Learning, "
    "arXiv:2504.15900 (abstract)",
    catalogue_ids=("sari",),
    axes=("data", "reward", "policy"),
    task="reasoned-tones",
    formula="lessons in sections;  R = [right] + [sections and answer in tags];  pass k > 1 over the pool in "
    "order of the latest pass rates, the easiest first;  GRPO, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04 (chosen here)",
        "warm-up": "`--lessons 40`: supervised steps on right answers with sections; the task's chains = free or both "
        "have thoughts without",
        "sections": "shaping.0.sections = plan, hear, steps, sum, each a line with its name and a colon, chosen here; "
        "without any, any thought will do",
        "pass rates": "measured by the first pass over a pool of 96 questions, from which it learns too, and again by "
        "every later pass; curriculum.order = shuffled leaves the order out",
    },
    note="shown on drawn recordings of tones; the paper has recordings of the world; in 24 steps answers came into the "
    "sections and were not right more often, whatever the order",
    curriculum=PassRateOrder(),
    shaping=(SectionFormat(),),
)

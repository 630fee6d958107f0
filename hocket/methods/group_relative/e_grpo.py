"""E-GRPO: GRPO that ranks wrong answers by the known entities they came upon (arXiv:2510.24694).

`EntityMatch` pays a wrong answer in the right form a part of a right one's reward, by its share of the question's
entities against the best share of the group, so that groups of wrong answers teach, too. `multihop` is a task for it;
`traced-sums` is one that the shipped base can begin with, where the totals on the way are what is to be come upon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hocket.core.batch import Batch, GroupBy
from hocket.core.columns import LABEL, TRACE, InfoColumn, info_column
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.signals import returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import groups_of, with_return
from hocket.stages import Shaping, Split
from hocket.tasks.arithmetic import draw_terms, expression_of, question_of
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.sums import Sums
from hocket.tasks.text import check_number
from hocket.types import Scenario

ENTITIES = InfoColumn("entities", "The entities that a right answer names; also in a scenario's metadata.")


def matched_share(text: str, entities: Sequence[str]) -> float:
    """The share of `entities` whose words stand in the text, whatever their case; 0 without any entities."""
    levelled = f" {' '.join(text.lower().split())} "
    found = [re.search(rf"(?<!\w){re.escape(' '.join(one.lower().split()))}(?!\w)", levelled) for one in entities]
    return sum(match is not None for match in found) / len(entities) if entities else 0.0


@dataclass(frozen=True)
class EntityMatch(Shaping):
    """`R` of a right answer, `alpha g_i / max_j g_j` of a wrong one in the right form, 0 without an answer.

    E-GRPO (arXiv 2510.24694): g is the share of a question's known entities that stand in the text, and the maximum
    runs over the group. An answer is right if its return is at least `right`; it is in the right form if it has a
    `label`. Reads the columns `trace` and `label`, and `entities` (a list of names; a column or in the scenario's
    metadata); where none are named, g is 0.

    Attributes:
        alpha: what the best wrong answer of a group gets, in [0, 1): less than a right one.
        column: where entities are looked for: what was said in all turns, as the search for them spans several.
    """

    alpha: float = 0.3
    right: float = 1.0
    by: GroupBy = GroupBy("scenario")
    column: str = TRACE.name

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < self.right:
            raise ValueError(f"alpha must lie in [0, {self.right}), below a right answer's reward, not {self.alpha}")

    def __call__(self, batch: Batch) -> Batch:
        texts = info_column(batch, self.column, "EntityMatch")
        labels = LABEL.read(batch, "EntityMatch")
        entities = ENTITIES.or_metadata(batch)
        value = returns(batch).clone()
        for members in groups_of(batch, self.by):
            share = [matched_share(texts[row] or "", entities[row] or ()) for row in members]
            highest = max(share, default=0.0)
            for row, own in zip(members, share, strict=True):
                if value[row] < self.right:
                    formed = labels[row] is not None and highest > 0
                    value[row] = self.alpha * own / highest if formed else 0.0
        return with_return(batch, value)


class TracedSums(Sums):
    """Sums of three and four terms whose metadata name the totals on the way, `entities`, the answer last.

    A question is made from its totals as a search question is made from entities, and a wrong answer that came by the
    right ones is a near miss.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = "traced-sums"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        while True:
            terms = draw_terms(rng)
            question = question_of(expression_of(terms))
            if len(terms) > 2 and split_of(question) == split:
                break
        totals = [str(total) for total in accumulate(terms)][1:]
        return Scenario(f"{self.name}/{split}/{number}", question, totals[-1], {"entities": totals}, seed=number)


def from_settings(name: str, settings: Mapping[str, str]) -> TracedSums:
    """The task, which has no settings."""
    checked(name, settings, {})
    return TracedSums()


TRACED_SUMS = TaskForm(
    name="traced-sums",
    description="sums whose totals on the way are known, so that a near miss can be told",
    make=from_settings,
)


E_GRPO = GRPO.but(
    name="e-grpo",
    title="Entity-aware GRPO",
    source="Repurposing Synthetic Data for Fine-grained Search Agent Supervision, arXiv:2510.24694",
    catalogue_ids=("e-grpo",),
    axes=("reward", "credit", "data"),
    formula="r_i = R_i if right, alpha g_i/max_j g_j if wrong with an answer, 0 without; then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "alpha": "shaping.0.alpha = 0.3, chosen here; below the reward of a right answer",
        "right": "a return of at least shaping.0.right = 1",
        "form": "right if there is a final answer (label)",
        "entities": "a list in the scenario's metadata; matched as whole words, case levelled, in what the policy said "
        "in all turns, or in another column (shaping.0.column) that a workflow fills; what tools said is not matched",
        "task": "questions with known entities: multihop, or, for the shipped base, sums with their totals on the way",
        "maximum": "over the group, right answers included; 0 where no entity is matched or none is known",
    },
    task="traced-sums",
    shaping=(EntityMatch(),),
)

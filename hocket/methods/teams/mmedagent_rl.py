"""MMedAgent-RL: triage sends a case to specialists, an attending doctor decides beside them (text parts).

Two doctors are trained by GRPO, each compared with itself at its place (`TurnRelative`): triage earns the right
department, the attending doctor the right decision and its form (`TriageAttending`). The specialists between them are
frozen. Cases come by how reliable the specialists are on them (`AdviceStages`): all right, then divided, then all
wrong, so that advice is first imitated and then overruled where the case itself says otherwise.

The paper's cases are pictures with questions; here they are words, and the specialists' opinions stand in the case's
record. Its text was not at hand, only its abstract: the split in three stages is recalled, what follows them, their
length and the weight of the form are ours. Here the curriculum was not seen to teach more than shuffled cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.batch import GroupBy
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.turn_level import TurnRelative
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.grpo import GRPO
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario

REFERRED = InfoColumn("referred", "The department that triage named; None where it named none.")


@dataclass(frozen=True)
class TriageAttending(Workflow):
    """Triage names a department, its specialists' opinions are read from the case, the attending doctor decides.

    A scenario's metadata say the right `department` and the `opinions` of each department's specialists. Triage earns
    1 for the right department, the attending doctor the task's verdict and `form` if its reply ended by itself.

    Attributes:
        form: what a reply that ended by itself earns besides.
    """

    name = "triage-attending"
    description = "one chooses the specialists, one decides beside them (MMedAgent-RL); task referral"

    form: float = 0.1

    roles = ("triage", "attending")
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        opinions: Mapping[str, list[str]] = scenario.metadata["opinions"]
        question = asked(team.assignment)
        choice = await team.triage(with_line(question, f"Which department, {' or '.join(opinions)}?"))
        named = [name for name in opinions if name in str(choice).lower()]
        department = named[0] if len(named) == 1 else None
        said = "No department was asked."
        if department is not None:
            said = f"The {department} doctors say {', '.join(opinions[department])}."
        answer = await team.attending(with_line(question, f"{said} What is it?"))
        own = {
            choice: float(department == scenario.metadata["department"]),
            answer: team.verify(answer) + self.form * (answer.finish == "stop"),
        }
        return Outcome(answer=str(answer), turn_rewards={"own": own}, info={REFERRED.name: department})


@dataclass(frozen=True)
class AdviceStages(Curriculum):
    """Cases on which all specialists are right, then those that divide them, then those on which all are wrong.

    Cases come as `Shuffled` gives them, and one that does not belong to the stage is passed over for the next that
    does, `tries` at most. After the three stages all cases are asked as they come.

    Attributes:
        prompts: cases per step. per_stage: cases of each stage.
        order: `staged`, or `shuffled`: all as they come from the start, the comparison of the paper.
        tries: cases looked at for one; where none fits the last is taken.
    """

    prompts: int = 16
    per_stage: int = 160
    order: Literal["staged", "shuffled"] = "staged"
    tries: int = 200

    reads_metadata: ClassVar[frozenset[str]] = frozenset({"advice"})

    def __post_init__(self) -> None:
        if min(self.prompts, self.per_stage, self.tries) < 1 or self.order not in ("staged", "shuffled"):
            raise ConfigurationError(
                "curriculum: prompts, per_stage and tries are at least 1 and order is staged or shuffled, not "
                f"{self.prompts}, {self.per_stage}, {self.tries} and {self.order!r}"
            )

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [self._case(task, asked + number, ledger, key) for number in range(count)]

    def _case(self, task: Task, position: int, ledger: LedgerView, key: Key) -> Scenario:
        stage = 3 if self.order == "shuffled" else min(position // self.per_stage, 3)
        plain = Shuffled(self.prompts)
        if stage == 3:
            return plain(task, position, 1, ledger, key)[0]
        for place in range(self.tries):
            (found,) = plain(task, position * self.tries + place, 1, ledger, key.derive("advice"))
            if stage_of(float(found.metadata["advice"])) == stage:
                break
        return found


def stage_of(advice: float) -> int:
    """0 where all specialists are right, 1 where they are divided, 2 where all are wrong."""
    return 0 if advice >= 1.0 else 2 if advice <= 0.0 else 1


MMEDAGENT_RL = GRPO.but(
    name="mmedagent-rl",
    title="MMedAgent-RL: triage and an attending doctor, taught when to trust specialists",
    source="MMedAgent-RL: Optimizing Multi-Agent Collaboration for Multimodal Medical Reasoning (abstract)",
    family="teams",
    catalogue_ids=("mmedagent-rl",),
    axes=("team", "data", "policy"),
    formula="triage: r = [right department];  attending: r = [right decision] + 0.1 [ended];  A = (r - mean)/std among "
    "the same doctor's turns;  cases with all, some, none of the specialists right, in this order, then all",
    conventions={
        **GRPO.conventions,
        "cases": "in words; the paper's are pictures with questions",
        "specialists": "frozen: their opinions stand in the case's record",
        "stages": "curriculum.per_stage = 160 cases each, then all cases as they come; recalled, lengths chosen here",
        "credit": "reward of the turn alone, against the same doctor's turns in the scenario's samples",
        "role weights": "one policy each, as the paper has two models",
    },
    note="cases in words, and specialists that are records in them; that the order of the curriculum teaches more than "
    "shuffled cases, as the paper reports, was not seen",
    task="referral",
    requires=(Requirement.AGENTS, Requirement.TURN_REWARDS),
    workflow="triage-attending",
    cast=Separate(),
    curriculum=AdviceStages(),
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="mean", scale="std", gamma=0.0),
)

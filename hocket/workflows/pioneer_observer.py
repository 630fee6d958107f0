"""Two answers to one question, the second with the first in view."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.columns import InfoColumn
from hocket.types import Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow, asked, with_line

PIONEER = InfoColumn("pioneer", "What the first answer is worth.")
OBSERVER = InfoColumn("observer", "What the second answer is worth.")


@dataclass(frozen=True)
class PioneerObserver(Workflow):
    """The pioneer answers alone, the observer after reading it: CORY (arXiv 2410.06101). The answer is the pioneer's.

    Attributes:
        shared: both earn the sum of the two verdicts; otherwise each its own.
        shown: the observer sees the pioneer's answer; otherwise it is asked as the pioneer was.
        intro: what stands before that answer.
    """

    name = "pioneer-observer"
    description = "a second answer after reading the first (CORY)"

    shared: bool = True
    shown: bool = True
    intro: str = "Another answer:"

    roles = ("pioneer", "observer")
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        first = await team.pioneer(question)
        second = await team.observer(with_line(question, f"{self.intro} {first}") if self.shown else question)
        pioneer, observer = team.verify(first), team.verify(second)
        info = {PIONEER.name: pioneer, OBSERVER.name: observer}
        if self.shared:
            return Outcome(answer=str(first), rewards={"both": pioneer + observer}, info=info)
        return Outcome(answer=str(first), turn_rewards={"own": {first: pioneer, second: observer}}, info=info)

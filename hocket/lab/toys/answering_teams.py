"""Toys of several claims: answering teams."""

from __future__ import annotations

from hocket.types import Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow, asked

SEEDS = range(5)


class Alone(Workflow):
    """One agent answers once, called as a member of a pair."""

    scores = True

    def __init__(self, role: str = "pioneer") -> None:
        self.roles = (role,)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team[self.roles[0]](asked(team.assignment))
        return Outcome(answer=str(said), rewards={"own": team.verify(said)})

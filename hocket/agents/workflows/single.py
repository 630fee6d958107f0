"""The plain workflow: one policy answers the scenario once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.types import Scenario


@dataclass(frozen=True)
class SingleTurn(Workflow):
    """One role, `policy`, called once with the scenario's messages, its hint and its imposed prefix."""

    name = "single"
    description = "one policy answers once"

    roles = ("policy",)
    opens = True

    system: str | None = None

    @property
    def prompts(self) -> Mapping[str, str]:
        return {} if self.system is None else {"policy": self.system}

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        await team.policy(asked(team.assignment), prefix=team.assignment.prefix)
        return None

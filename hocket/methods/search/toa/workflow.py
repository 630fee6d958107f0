"""One answer after the other, each by the seat that is asked for; who speaks reads what was answered before."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.errors import ConfigurationError
from hocket.types import Scenario


@dataclass(frozen=True)
class Speakers:
    """Who answers, in order: what a rollout asks of `Relay` (`Assignment.options`)."""

    roles: tuple[str, ...]


@dataclass(frozen=True)
class Relay(Workflow):
    """`agent_1`, `agent_2`, .. answer in turn, each in a conversation of its own; the last answer is the team's.

    Everybody reads the question and the answers so far. A rollout may say who speaks, once, several times or never
    (`Speakers`); else each speaks once.

    Attributes:
        agents: how many.
    """

    name = "relay"
    description = "answers one after the other, by whom a search asks; each reads those before"

    agents: int = 3

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise ConfigurationError(f"agents = {self.agents}: a relay needs one that answers")
        object.__setattr__(self, "roles", tuple(f"agent_{number}" for number in range(1, self.agents + 1)))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        told, said = team.assignment.option(Speakers), list[Reply]()
        for role in self.roles if told is None else told.roles:
            answers = "\n".join(f"Answer {number}: {one}" for number, one in enumerate(said, start=1))
            question = asked(team.assignment)
            said.append(await team[role].fresh()(with_line(question, answers) if answers else question))
        return Outcome(answer=str(said[-1]))

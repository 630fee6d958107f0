"""A chain of agents, each of which reads the outputs of those before it."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.types import Scenario


@dataclass(frozen=True)
class Pipeline(Workflow):
    """`agent_1`, `agent_2`, .. are called in order with the question and all earlier outputs; the last one answers.

    Attributes:
        agents: their number.
    """

    name = "pipeline"
    description = "each reads all earlier outputs in turn; the last answers"

    agents: int = 3

    scores = True

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise ValueError(f"agents must be at least 1, not {self.agents}")
        object.__setattr__(self, "roles", tuple(f"agent_{number}" for number in range(1, self.agents + 1)))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        replies: list[Reply] = []
        for role in self.roles:
            notes = "\n".join(f"Note {number}: {note}" for number, note in enumerate(replies, start=1))
            question = asked(team.assignment)
            replies.append(await team[role](with_line(question, notes) if notes else question))
        return Outcome(answer=str(replies[-1]), rewards={"team": team.verify(replies[-1])})

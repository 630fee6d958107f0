"""The team: each role is an agent with a conversation of its own, which an `await` asks for its next turn."""

import re

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.types import Scenario


class ScoutAndSolver(Workflow):
    """The scout adds the first half; its message is all that the solver learns of it."""

    roles = ("scout", "solver")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        """An episode: what the solver says is the team's answer."""
        message = str(await team.scout(f"What is {scenario.metadata['first']}?"))
        answer = await team.solver(f"What is {result(message)} {scenario.metadata['second']}?")
        return Outcome(answer=str(answer))


def result(message: str) -> str:
    """The text between the answer's tags, else the whole message."""
    match = re.search(r"<answer>(.*?)</answer>", message)
    return message if match is None else match[1]

"""Look-ups in several steps, each of which finds the next thing only where the right one was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.types import Message, Scenario

WAYS = ("north", "east", "south", "west")
ASKED = [Scenario("one", "", answer="north east west south"), Scenario("two", "", answer="south south east west")]


@dataclass(frozen=True)
class Hops(Workflow):
    """A turn per word of the scenario's answer; all must be right."""

    name = "hops"
    roles = ("policy",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        right = scenario.answer.split()
        replies = [str(await team.policy(f"{scenario.id}, hop {number}")) for number in range(len(right))]
        return Outcome(rewards={"found": float(replies == right)})


def last(messages: tuple[Message, ...]) -> str:
    """A view: which hop of which look-up it is, and nothing before."""
    return str(messages[-1]["content"])

"""A quiz with peers: what they did in earlier rounds, what they say now, and then the agent commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import InfoColumn
from hocket.core.markup import tagged
from hocket.types import Message, Scenario

ALONE = InfoColumn("alone", "What the agent answered without peers; None if it was not asked.")
SAYS = InfoColumn("says", "What the peers said.")


@dataclass(frozen=True)
class PeerPressure(Workflow):
    """The agent reads its peers' records and answers, and gives its own: KAIROS (arXiv 2508.18321).

    A scenario's metadata say `records` (the line about each peer), `says` (what each may say now: the first of these
    that is not what the agent said alone, or the first; nothing where it repeats that) and `alone`, whether the agent
    is asked without peers first, in a conversation of its own. What it said then is `info["alone"]`, what the peers
    said `info["says"]`.
    """

    roles = ("policy",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        about = scenario.metadata
        alone = None
        if about["alone"]:
            alone = (await team.policy.fresh()(asked(team.assignment))).text
        own = given(alone or "")
        says = [next((one for one in may if one != own), may[0]) if may else own for may in about["says"]]
        reply = await team.policy(
            pressed(asked(team.assignment), about["records"], says), prefix=team.assignment.prefix
        )
        return Outcome(answer=reply.text, info={ALONE.name: alone, SAYS.name: says})


def given(text: str) -> str:
    """The answer in a reply: what stands in its tags, else all of it."""
    found = tagged(text)
    return text.strip() if found is None else found.strip()


def pressed(messages: Sequence[Message], records: Sequence[str], says: Sequence[str]) -> tuple[Message, ...]:
    """The question under what is known of the peers and what they say."""
    lines = [f"{record} Now says {said}." for record, said in zip(records, says, strict=True)]
    *before, last = messages
    return (*before, {**last, "content": "\n".join([*lines, str(last["content"])])})

"""One response, step by step: what a tree search goes through within an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.errors import ConfigurationError
from hocket.types import Scenario


@dataclass(frozen=True)
class Stepwise(Workflow):
    """The answer that one policy would give at once, said in steps, each of which ends with `until`.

    Every step is a turn that begins with all before it as imposed decisions, so the last turn is the whole answer, and
    a search over messages is one over steps. What an assignment imposes (`prefix`) begins the first step.

    Attributes:
        until: what ends a step, as text that belongs to it, several texts with `|` between; an answer without any is
            one step.
    """

    name = "stepwise"
    description = "one policy answers once, step by step: each step is a turn"

    until: str = "\n"

    roles = ("policy",)
    limits = Limits(turns=None)

    def __post_init__(self) -> None:
        if not all(self.ends):
            raise ConfigurationError(
                f"workflow stepwise: until = {self.until!r} holds an empty text; say what ends a step"
            )

    @property
    def ends(self) -> tuple[str, ...]:
        """The texts any of which ends a step."""
        return tuple(self.until.split("|"))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        asks, decoding = asked(team.assignment), team.assignment.decoding
        way = replace(decoding, stop=(*decoding.stop, *self.ends))
        prefix, before = tuple(team.assignment.prefix), ""
        while True:
            reply = await team.policy.fresh()(asks, prefix=prefix, decoding=way)
            # An end of turn right after a step's end adds no text.
            cut = any(end in reply.text[len(before) :] for end in self.ends) and reply.finish == "stop"
            if not cut or len(reply.tokens) >= way.max_tokens:
                return Outcome(answer=reply.text)
            prefix, before = tuple(reply.tokens.tolist()), reply.text

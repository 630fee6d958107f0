"""Agents that answer, read those they are connected to, and vote: a debate over a graph."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hocket.agents.workflows.reply import Reply, final
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Edge
from hocket.types import Scenario


@dataclass(frozen=True)
class Network(Workflow):
    """`agents` answer at the same time; in each further round those with edges read whom they are connected to.

    Who reads nobody keeps its answer and is not called again. The answer is the last reply of the first agent who voted
    with the plurality; each agent earns the verdict on its own last answer, all of them that on the team's.

    Attributes:
        agents: how many; `agent_1`, `agent_2`, .. rounds: answers of those that read. system: a prompt for all.
        edges: who reads whom; None connects all.
    """

    name = "network"
    description = "several answer, each reads those it is connected to, and all vote"

    agents: int = 4
    rounds: int = 2
    system: str | None = None
    edges: tuple[Edge, ...] | None = None

    scores = True

    def __post_init__(self) -> None:
        if self.agents < 1 or self.rounds < 1:
            raise ConfigurationError(
                f"agents = {self.agents} and rounds = {self.rounds}: a network needs an agent that answers, once"
            )
        if isinstance(self.edges, str):
            raise ConfigurationError("workflow network: edges are pairs of roles; `hocket optimise` chooses them")
        object.__setattr__(self, "roles", tuple(f"agent_{n}" for n in range(1, self.agents + 1)))

    @property
    def prompts(self) -> Mapping[str, str]:
        return {} if self.system is None else dict.fromkeys(self.roles, self.system)

    @property
    def reads(self) -> Mapping[str, tuple[str, ...]]:
        """Whom each agent reads."""
        if self.edges is None:
            return {role: tuple(other for other in self.roles if other != role) for role in self.roles}
        return {role: tuple(read for reader, read in self.edges if reader == role) for role in self.roles}

    @property
    def calls(self) -> int:
        """Answers in an episode."""
        return self.agents + (self.rounds - 1) * sum(bool(read) for read in self.reads.values())

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        first = await asyncio.gather(*(team[role](asked(team.assignment)) for role in self.roles))
        said: dict[str, Reply] = dict(zip(self.roles, first, strict=True))
        reads = {role: read for role, read in self.reads.items() if read}
        for _ in range(self.rounds - 1):
            heard = {role: "\n".join(f"Another: {said[one]}" for one in read) for role, read in reads.items()}
            again = await asyncio.gather(*(team[role](text) for role, text in heard.items()))
            said |= zip(heard, again, strict=True)
        votes = {role: final(one) for role, one in said.items()}
        winner = Counter(votes.values()).most_common(1)[0][0]
        chosen = next(said[role] for role in self.roles if votes[role] == winner)
        own = {one: team.verify(one) for one in said.values()}
        return Outcome(answer=str(chosen), rewards={"team": team.verify(chosen)}, turn_rewards={"own": own})

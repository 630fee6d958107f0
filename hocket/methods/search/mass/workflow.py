"""A team built of blocks: several answer, are criticised, read each other, and vote."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

from hocket.agents.tools import find_all
from hocket.agents.workflows.reply import Reply, final
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.tool_loop import converse
from hocket.agents.workflows.tool_use import ToolsOf, tools_for
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.texts import Block
from hocket.types import Message, Scenario


@dataclass(frozen=True)
class Blocks(Workflow):
    """`predict` answers, and what else the team is built of; a vote at the end.

    In this order: the summariser puts the question shorter, `summarise` times; `predict` predictors (two or more where
    there is a debate) answer it at the same time, each with at most `tools` rounds of tool calls; the reflector
    criticises each answer, and its predictor answers again, `reflect` times; debaters, one for each predictor, read the
    others' answers and answer again, `debate` times. The answer is the last reply of the first who voted with the
    plurality. Every call is a conversation of its own that begins with the question; in an answer with tools, they are
    part of the conversation.

    Attributes:
        blocks: how many of each; what is not named is not there, but for one predictor.
        tools_of: as in `ToolUse`.
        temperature: of several predictors where answers are otherwise greedy, in which case they would all be one.
    """

    name = "blocks"
    description = "a team of blocks: summarise, predict, tools, reflect, debate, and a vote"

    blocks: Mapping[str, int] | None = None
    tools_of: ToolsOf | str | None = None
    temperature: float = 1.0

    roles = ("predictor", "summariser", "reflector", "debater")
    scores = True
    offers: ClassVar[tuple[Block, ...]] = (
        Block("predict", "predictor", (1, 3, 5, 7)),
        Block("summarise", "summariser", (0, 1)),
        Block("tools", "predictor", (0, 1, 2)),
        Block("reflect", "reflector", (0, 1, 2)),
        Block("debate", "debater", (0, 1, 2)),
    )

    def __post_init__(self) -> None:
        known = {block.name: block.counts for block in self.offers}
        if isinstance(self.blocks, str):
            raise ConfigurationError("workflow blocks: blocks are numbers by name; `hocket optimise` chooses them")
        for name, count in (self.blocks or {}).items():
            if name not in known:
                raise ConfigurationError(f"workflow blocks: there is no block {name!r}{nearest(name, known)}")
            if count < known[name][0]:
                least = "; somebody must answer" if name == "predict" else ""
                raise ConfigurationError(f"workflow blocks: {name} = {count}: at least {known[name][0]}{least}")
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    def count(self, name: str) -> int:
        """How many of a block there are."""
        first = next(block.counts[0] for block in self.offers if block.name == name)
        return (self.blocks or {}).get(name, first)

    @property
    def predictors(self) -> int:
        """How many answer; nobody debates alone."""
        return max(self.count("predict"), 2 if self.count("debate") else 1)

    @property
    def calls(self) -> int:
        """Answers in an episode in which each predictor uses all its tool calls."""
        each = 1 + self.count("tools") + 2 * self.count("reflect") + self.count("debate")
        return self.count("summarise") + self.predictors * each

    def equipped(self, tools: ToolsOf) -> Blocks:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question: Sequence[Message] = asked(team.assignment)
        for _ in range(self.count("summarise")):
            short = await team.summariser.fresh()(with_line(question, "Say what matters in this question."))
            question = ({"role": "user", "content": str(short)},)
        predictors = range(self.predictors)
        said: list[Reply] = list(await asyncio.gather(*(self._answer(team, scenario, question) for _ in predictors)))
        for _ in range(self.count("reflect")):
            said = list(await asyncio.gather(*(_reflected(team, question, one) for one in said)))
        for _ in range(self.count("debate")):
            heard = [[other for place, other in enumerate(said) if place != own] for own in predictors]
            said = list(await asyncio.gather(*(team.debater.fresh()(_under(question, others)) for others in heard)))
        votes = [final(one) for one in said]
        chosen = said[votes.index(Counter(votes).most_common(1)[0][0])]
        own = {one: team.verify(one) for one in said}
        return Outcome(answer=str(chosen), rewards={"team": team.verify(chosen)}, turn_rewards={"own": own})

    async def _answer(self, team: Team, scenario: Scenario, question: Sequence[Message]) -> Reply:
        calls, way = self.count("tools"), team.assignment.decoding
        if self.predictors > 1 and not way.temperature:
            way = replace(way, temperature=self.temperature)
        if not calls:
            return await team.predictor.fresh()(question, decoding=way)
        given = self.tools_of if self.tools_of is not None else find_all("calculator")
        assert not isinstance(given, str)  # names became tools at construction
        tools = tools_for(given, scenario, team.key)
        agent = partial(team.predictor.fresh(tools=[tool.schema for tool in tools]), decoding=way)
        return (await converse(cast(Agent, agent), question, tools, turns=1 + calls))[0]


async def _reflected(team: Team, question: Sequence[Message], one: Reply) -> Reply:
    """The answer after a criticism of it."""
    critique = await team.reflector.fresh()(_under(question, [one]))
    return await team.predictor.fresh()(with_line(_under(question, [one]), f"Criticism: {critique}"))


def _under(question: Sequence[Message], answers: Sequence[Reply]) -> Sequence[Message]:
    return with_line(question, "\n".join(f"Answer: {one}" for one in answers))

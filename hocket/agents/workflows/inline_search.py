"""A single response with searches, whose results are inserted into it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hocket.agents.tools import find_all
from hocket.agents.tools.protocol import Call, Tool
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import ToolCallRecord
from hocket.agents.workflows.tool_use import ToolsOf, tools_for
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import CALLS, TOOL_CALLS
from hocket.core.errors import ConfigurationError
from hocket.types import Scenario

CLOSED = "</search>"
_QUERY = re.compile(r"<search>((?:(?!<search>).)*)</search>\Z", re.DOTALL)


def information(result: str) -> str:
    """The results of a search, as inserted into a response."""
    return f"<information>{result}</information>"


@dataclass(frozen=True)
class SearchWithin(Workflow):
    """One response with searches in it: Search-R1 (arXiv 2503.09516), algorithm 1.

    It runs until `</search>`. The tool gets the text between the tags, its answer is imposed as
    `<information>..</information>`, and the response continues, at most `turns` times. Every part is a turn that begins
    with all earlier parts as imposed decisions, so the policy's own text counts once and the tool's never.
    `Outcome.info` has `tool_calls` and `calls`, as for called tools.

    Attributes:
        tools_of: as in `ToolUse`; uses the tool called `search`, or the only one. turns: parts of a response.
        masked: whether search results carry no loss; otherwise they are learnt like the policy's own text.
    """

    name = "search-within"
    description = "searches within one response; what they find is imposed"

    tools_of: ToolsOf | str | None = None
    turns: int = 4
    masked: bool = True

    roles = ("policy",)

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ConfigurationError(f"workflow search-within: turns must be at least 1, not {self.turns}")
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    def equipped(self, tools: ToolsOf) -> SearchWithin:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        tool, asks, made = self._tool(scenario, team), asked(team.assignment), list[ToolCallRecord]()
        prefix, length = tuple(team.assignment.prefix), len(team.assignment.prefix)
        while True:
            decoding = team.assignment.decoding
            way = replace(decoding, max_tokens=decoding.max_tokens + len(prefix), stop=(*decoding.stop, CLOSED))
            reply = await team.policy.fresh()(asks, prefix=prefix, decoding=way)
            if not self.masked and reply.turn.forced is not None:
                reply.turn.forced[length : len(prefix)] = False
            query = _QUERY.search(reply.text)
            if query is None or len(made) + 1 == self.turns:
                break
            result = await tool({"query": query[1]})
            made.append(ToolCallRecord(Call(tool.name, {"query": query[1]}), result, len(made)))
            length = len(reply.tokens)
            prefix = (*reply.tokens.tolist(), *team.policy.encoded(information(result), reply.tokens.tolist()))
        info = {TOOL_CALLS.name: len(made), CALLS.name: [call.plain for call in made]}
        return Outcome(answer=reply.text, info=info)

    def _tool(self, scenario: Scenario, team: Team) -> Tool:
        assert not isinstance(self.tools_of, str)  # names became tools at construction
        tools = () if self.tools_of is None else tools_for(self.tools_of, scenario, team.key)
        searches = [tool for tool in tools if tool.name == "search" or len(tools) == 1]
        if not searches:
            raise ConfigurationError(
                "workflow search-within has nothing to search; choose a task that brings a search tool, such as lookup "
                "or multihop, or --workflow 'search-within?tools_of=search:PATH'"
            )
        return searches[0]

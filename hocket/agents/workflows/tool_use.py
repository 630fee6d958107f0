"""One policy that may call tools before it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.agents.tools import check_names, find_all
from hocket.agents.tools.protocol import Tool
from hocket.agents.workflows.chat import Tools
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import ToolCallRecord, converse
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import CALLS, TOOL_CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

ToolsOf = Sequence[Tool] | Callable[[Scenario, Key], Sequence[Tool]]
"""Tools, or a function that makes the tools of one episode from its scenario and key."""


@dataclass(frozen=True)
class ToolUse(Workflow):
    """The policy answers, or calls tools and continues with their results, until a reply has no call.

    Results come back as `tool` messages: observation, never a decision. `Outcome.info` has `tool_calls` (their number)
    and `calls` (each with name, arguments, result, turn, and whether it worked). A last reply with calls is the answer
    as it is. An assignment's prefix is imposed on the first reply that is not replayed.

    Attributes:
        tools_of: the tools, their names separated by commas, or a function that makes those of one episode from its
            scenario and key. None is those of the task, or the calculator if it has none.
        turns: the largest number of replies. listed: whether the chat template lists the tools. system: a system
            prompt.
        call_reward: when not 0, the reward `calls` of each turn with calls that all succeeded; a call that is answered
            with `error` did not.
    """

    name = "tool-use"
    description = "one policy that may call tools, e.g. tool-use?tools_of=calculator,python"

    tools_of: ToolsOf | str | None = None
    turns: int = 4
    listed: bool = True
    system: str | None = None
    call_reward: float = 0.0

    roles = ("policy",)
    opens = True

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ConfigurationError(f"workflow tool-use: turns must be at least 1, not {self.turns}")
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))
        elif self.tools_of is not None and not callable(self.tools_of):
            check_names(self.tools_of)

    @property
    def prompts(self) -> Mapping[str, str]:
        return {} if self.system is None else {"policy": self.system}

    @property
    def tools(self) -> Mapping[str, Tools]:
        tools = self._given
        return {} if not self.listed or callable(tools) else {"policy": [tool.schema for tool in tools]}

    def equipped(self, tools: ToolsOf) -> ToolUse:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        tools, agent, begun = tools_for(self._given, scenario, team.key), team.policy, team.assignment.replay
        if self.listed and callable(self._given):
            agent = agent.fresh(tools=[tool.schema for tool in tools])
        prefix, after = team.assignment.prefix, 0 if begun is None else len(begun.turns)
        reply, made = await converse(agent, asked(team.assignment), tools, turns=self.turns, prefix=prefix, after=after)
        info = {TOOL_CALLS.name: len(made), CALLS.name: [record.plain for record in made]}
        earned = {"calls": self._earned(made)} if self.call_reward else {}
        return Outcome(answer=str(reply), info=info, turn_rewards=earned)

    @property
    def _given(self) -> ToolsOf:
        assert not isinstance(self.tools_of, str)  # names became tools at construction
        return find_all("calculator") if self.tools_of is None else self.tools_of

    def _earned(self, made: Sequence[ToolCallRecord]) -> list[float]:
        """The reward of each turn; after the last calls there is one more turn."""
        turns = made[-1].turn + 2 if made else 1
        worked = [[record.worked for record in made if record.turn == turn] for turn in range(turns)]
        return [self.call_reward if calls and all(calls) else 0.0 for calls in worked]


def tools_for(given: ToolsOf, scenario: Scenario, key: Key) -> Sequence[Tool]:
    """The tools of one episode.

    Raises:
        ConfigurationError: for two of one name.
    """
    tools = given(scenario, key) if callable(given) else given
    check_names(tools)
    return tools

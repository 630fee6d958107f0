"""An agent that calls tools until it has its answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.agents.tools.protocol import Call, Tool, carried_out, read_calls
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent
from hocket.core.media import Parts, PicturedAnswer
from hocket.types import Message

SPENT = "error: no more calls; answer now"


@dataclass(frozen=True)
class ToolCallRecord:
    """A tool call: its arguments, its result, and the index of the reply that contains it."""

    call: Call
    result: str
    turn: int

    @property
    def worked(self) -> bool:
        """Whether the call succeeded."""
        return self.call.problem is None and not self.result.startswith("error")

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data, for records."""
        request = {"name": self.call.name, "arguments": dict(self.call.arguments)}
        return {**request, "result": self.result, "turn": self.turn, "worked": self.worked}


def content_for(agent: Agent, result: str) -> str | Parts:
    """What an agent is shown of a tool's answer: its pictures as well, if its model reads them."""
    return result.content if isinstance(result, PicturedAnswer) and agent.sees else str(result)


async def converse(
    agent: Agent,
    messages: Sequence[Message] | str,
    tools: Sequence[Tool],
    *,
    max_calls: int | None = None,
    turns: int | None = None,
    prefix: Sequence[int] = (),
    after: int = 0,
) -> tuple[Reply, list[ToolCallRecord]]:
    """Calls the agent, executes its tool calls and returns it their results, until a reply has no call.

    The agent gets only new messages, so its history grows by concatenation. The calls of a reply run concurrently, and
    each gets a `tool` message, in order; an unreadable call gets an error. The agent decides whether its template lists
    the tools.

    Args:
        max_calls: the number of executed calls. Further ones get the message that there are no more, and if the next
            reply still calls, it is the last one.
        turns: the largest number of replies. The last one is the answer, even if it has calls.
        prefix: response tokens imposed on the reply number `after`, from 0.
    """
    reply = await agent(messages, prefix=() if after else prefix)
    made: list[ToolCallRecord] = []
    left = math.inf if max_calls is None else max_calls
    turn = 0
    # Below 0, a call was refused already.
    while left >= 0 and (turns is None or turn + 1 < turns):
        calls = read_calls(reply.text, cut=reply.finish == "length")
        if not calls:
            break
        tried = [call if place < left else replace(call, problem=SPENT) for place, call in enumerate(calls)]
        left -= len(calls)
        results = await asyncio.gather(*(carried_out(call, tools) for call in tried))
        made += [ToolCallRecord(call, result, turn) for call, result in zip(tried, results, strict=True)]
        turn += 1
        results_read: list[Message] = [{"role": "tool", "content": content_for(agent, result)} for result in results]
        reply = await agent(results_read, prefix=prefix if turn == after else ())
    return reply, made

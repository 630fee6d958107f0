"""A user and an agent with tools take turns until the user closes the talk."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from hocket.agents.tools.protocol import Tool, carried_out, read_calls
from hocket.agents.workflows.chat import Tools
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import CALLS, DATABASE, LIMIT, SAID, InfoColumn
from hocket.core.discovery import Registry, constant
from hocket.core.keys import Key
from hocket.types import Message, Scenario

CLOSED = InfoColumn("closed", "Whether the user closed the talk.")


class User(Protocol):
    """A simulated user: a script, or an agent that plays one (`RoleUser`)."""

    async def open(self) -> str:
        """The first words."""
        ...

    async def reply(self, message: str) -> str | None:
        """The answer to a message of the agent; None closes the talk."""
        ...


class Visit(Protocol):
    """One conversation: the user, tools on its own database, and the prompt of a model that plays the user."""

    @property
    def user(self) -> User: ...

    @property
    def tools(self) -> Sequence[Tool]: ...

    @property
    def database(self) -> Any: ...

    @property
    def instruction(self) -> str: ...

    @property
    def briefing(self) -> str:
        """The agent's instructions for this dialogue, before the user's first message; may be empty."""
        ...

    def closes(self, message: str) -> bool:
        """Whether a message of the agent ends the talk, whatever the user would say."""
        ...


class TalkSource(Protocol):
    """Where talks come from: a frozen value."""

    @property
    def prompt(self) -> str:
        """The agent's general instructions."""
        ...

    @property
    def schemas(self) -> Tools:
        """The tools that the agent is shown."""
        ...

    def visit(self, scenario: Scenario, key: Key) -> Visit:
        """A new talk. All that the user draws comes from the key."""
        ...


@dataclass(frozen=True)
class TalkDesk:
    """A name for a place where talks come from: `make` is it with its usual settings."""

    name: str
    make: Callable[[], TalkSource]


DESKS = Registry("desk", ("hocket.agents", "hocket.zoo", "hocket.methods"), constant("TalkDesk"))
"""Constants that are a `TalkDesk`."""


def desk_called(name: str) -> TalkSource:
    """The desk of that name, or the object `FILE.py:NAME`.

    Raises:
        ConfigurationError: for an unknown name, with the nearest.
    """
    desk: Any = DESKS.find(name)
    if isinstance(desk, TalkDesk):
        return desk.make()
    return cast(TalkSource, desk() if inspect.isclass(desk) else desk)


@dataclass(frozen=True)
class SimulatedUser(Workflow):
    """A conversation of the role `agent` with a scripted user, or with the role `user` if `played` is set.

    A reply of the agent with a `<tool_call>` is a call, whose answer comes back as a `tool` message (one per call); any
    other reply goes to the user. `Outcome.info` has `database` (its final content), `said` (the agent's messages to the
    user), `closed` (whether the user ended the conversation) and `calls`; a conversation that does not end within
    `turns` is truncated.

    Attributes:
        desk: the source of conversations, or its name: `order-desk`, `consultation`, `FILE.py:NAME`.
        turns: replies of the agent, calls included.
        played: whether a policy plays the user, with its goal in a system message; it ends with the words `closing`.
    """

    name = "simulated-user"
    description = "an agent serves a user, e.g. simulated-user?desk=order-desk"

    desk: TalkSource | str = "order-desk"
    turns: int = 12
    played: bool = False
    closing: str = "###STOP###"

    def __post_init__(self) -> None:
        if self.turns < 1 or not self.closing:
            raise ValueError(f"turns must be at least 1, not {self.turns}, and closing must not be empty")
        if isinstance(self.desk, str):
            object.__setattr__(self, "desk", desk_called(self.desk))
        object.__setattr__(self, "roles", ("agent", "user") if self.played else ("agent",))

    @property
    def at(self) -> TalkSource:
        """The desk itself."""
        assert not isinstance(self.desk, str)
        return self.desk

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"agent": self.at.prompt}

    @property
    def tools(self) -> Mapping[str, Tools]:
        return {"agent": self.at.schemas}

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        visit = self.at.visit(scenario, team.key)
        user = RoleUser(team.user, visit.instruction, self.closing) if self.played else visit.user
        first = await user.open()
        heard: list[Message] = [{"role": "user", "content": f"{visit.briefing}\n{first}" if visit.briefing else first}]
        replies: list[str] = []
        calls, closed = 0, False
        for _ in range(self.turns):
            reply = await team.agent(heard)
            made = read_calls(reply.text)
            if made:
                calls += len(made)
                heard = [{"role": "tool", "content": await carried_out(call, visit.tools)} for call in made]
                continue
            replies.append(reply.text)
            answer = None if visit.closes(reply.text) else await user.reply(reply.text)
            if answer is None:
                closed = True
                break
            heard = [{"role": "user", "content": answer}]
        info: dict[str, Any] = {
            DATABASE.name: visit.database,
            SAID.name: replies,
            CLOSED.name: closed,
            CALLS.name: calls,
        }
        if not closed:
            info[LIMIT.name] = f"the user had not closed the talk after {self.turns} replies"
        return Outcome(info=info)


class RoleUser:
    """A user played by an agent.

    Args:
        agent: who plays. instruction: its goal, as a system message. closing: what it says to close the talk.
    """

    def __init__(self, agent: Agent, instruction: str, closing: str) -> None:
        self._agent = agent.fresh(system=f"{instruction}\nSay {closing} when you are done.")
        self._closing = closing

    async def open(self) -> str:
        return (await self._agent("How can I help you?")).text

    async def reply(self, message: str) -> str | None:
        answer = (await self._agent(message)).text
        return None if self._closing in answer else answer

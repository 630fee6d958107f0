"""The base of workflows, which users write: how a team plays a scenario, and the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hocket.agents.workflows.chat import Tools
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.types import Assignment, Message, Scenario


@dataclass(frozen=True)
class Outcome:
    """The outcome of an episode.

    Attributes:
        answer: the team's answer; rewards find it as `trajectory.info["answer"]`.
        rewards: named rewards of the whole trajectory; None is no opinion.
        turn_rewards: named rewards per turn: a number by reply, or one number per turn in call order.
        info: columns for rewards and reports.
    """

    answer: Any = None
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    turn_rewards: Mapping[str, Mapping[Reply, float] | Sequence[float | None]] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)


class Workflow(ABC):
    """Agents as ordinary async Python: subclass, name the roles, write `play`.

    A class whose body says `name = "..."`, and `description = "..."` in the next line, belongs to the library: that is
    how `--workflow` and `hocket workflows` find it.

    Attributes:
        roles: the roles; `team` has one agent per role.
        scores: whether its outcomes hold all rewards, so that the task's verifiers are not used.
        limits: the limits of an episode in a run; None is the default of `Limits`.
        prompts: system prompts by role, for conversations without one.
        tools: tools by role, listed by the chat template.
        tools_of: the tools of its agents, as in `ToolUse`; None for no tools, or those of the task.
        opens: whether its first role begins with the scenario's unchanged messages, under its own system prompt.
    """

    roles: tuple[str, ...] = ()
    scores: bool = False
    limits: Limits | None = None
    tools_of: Any = None
    opens: bool = False

    @property
    def prompts(self) -> Mapping[str, str]:
        return {}

    @property
    def tools(self) -> Mapping[str, Tools]:
        return {}

    def equipped(self, tools: Any) -> Workflow:
        """The workflow with the tools of a task, as in `ToolUse.tools_of`, if it can use tools and has none."""
        return self

    def around(self, own: Workflow) -> Workflow:
        """The workflow for a task whose own workflow is `own`: itself, unless it is a wrapper of another one."""
        return self

    @abstractmethod
    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        """Plays one episode. Every awaited agent call is recorded; None leaves the reward to the task's verifiers."""


def asked(assignment: Assignment) -> tuple[Message, ...]:
    """The scenario's messages, with the assignment's hint on a line of its own under the last user message."""
    messages = assignment.scenario.messages
    return messages if assignment.hint is None else with_line(messages, assignment.hint)


def with_line(messages: Sequence[Message], line: str) -> tuple[Message, ...]:
    """Messages with `line` under the last user message; a user message of its own where there is none."""
    lines = list(messages)
    for place in reversed(range(len(lines))):
        if lines[place]["role"] == "user":
            lines[place] = {**lines[place], "content": f"{lines[place]['content']}\n{line}"}
            return tuple(lines)
    return (*lines, {"role": "user", "content": line})

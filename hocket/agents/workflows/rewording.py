"""A workflow with other texts: prompts by role, a library under them, message routes, parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from hocket.agents.tools.recall import recalled
from hocket.agents.workflows.chat import Tools
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Texts
from hocket.types import Scenario


class Worded(Workflow):
    """`inner` played with `texts`; with empty texts every role is shown exactly what it is shown without.

    Where the texts have `recall`, each episode is shown what its scenario's messages call up.

    Raises:
        ConfigurationError: when the texts have edges, blocks or skills and the workflow has none, or no such blocks.
    """

    def __init__(self, inner: Workflow, texts: Texts) -> None:
        for name in ("edges", "blocks", "skills"):
            if getattr(texts, name) is not None:
                inner = _made_of(inner, name, getattr(texts, name))
        self.inner, self.texts = inner, texts
        self.roles, self.scores, self.limits, self.tools_of = inner.roles, inner.scores, inner.limits, inner.tools_of
        self.opens = inner.opens and texts.recall is None

    @property
    def prompts(self) -> Mapping[str, str]:
        return self.prompts_for("")

    def prompts_for(self, question: str) -> dict[str, str]:
        """The current system prompts of the roles."""
        prompts, shown = self.inner.prompts, recalled(self.texts, question)
        wordings = {role: shown.system(role, prompts.get(role)) for role in self.roles}
        return {role: text for role, text in wordings.items() if text}

    @property
    def calls(self) -> int:
        """Answers in an episode, as far as the workflow can tell: by its `calls`, else one of each role."""
        return int(getattr(self.inner, "calls", len(self.roles)))

    @property
    def tools(self) -> Mapping[str, Tools]:
        return self.inner.tools

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        if self.texts.recall is not None:
            question = "\n".join(str(message["content"]) for message in scenario.messages)
            team = team.prompted(self.prompts_for(question))
        return await self.inner.play(scenario, team)


_HAS = {"edges": "--workflow network", "blocks": "--workflow blocks", "skills": "--task battle:3v3"}
"""Where there is a workflow that has each."""


def _made_of(inner: Workflow, name: str, value: object) -> Workflow:
    if not hasattr(inner, name) or not dataclasses.is_dataclass(inner):
        flow = getattr(inner, "name", type(inner).__name__)
        raise ConfigurationError(f"workflow {flow} has no {name} to choose; take {_HAS[name]}")
    return cast(Workflow, dataclasses.replace(cast(Any, inner), **{name: value}))

"""A workflow as it is, with other texts: prompts by role, a library under them, who reads whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from hocket.core.errors import ConfigurationError
from hocket.core.texts import Texts
from hocket.types import Scenario
from hocket.workflows.chat import Tools
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow


class Worded(Workflow):
    """`inner` played with `texts`; with empty texts every role is shown exactly what it is shown without.

    Raises:
        ConfigurationError: when the texts have edges and the workflow has none.
    """

    def __init__(self, inner: Workflow, texts: Texts) -> None:
        if texts.edges is not None:
            inner = _connected(inner, texts)
        self.inner, self.texts = inner, texts
        self.roles, self.scores, self.limits, self.tools_of = inner.roles, inner.scores, inner.limits, inner.tools_of

    @property
    def prompts(self) -> Mapping[str, str]:
        own = self.inner.prompts
        found = {role: self.texts.system(role, own.get(role)) for role in self.roles}
        return {role: text for role, text in found.items() if text}

    @property
    def tools(self) -> Mapping[str, Tools]:
        return self.inner.tools

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        return await self.inner.play(scenario, team)


def _connected(inner: Workflow, texts: Texts) -> Workflow:
    if not hasattr(inner, "edges") or not dataclasses.is_dataclass(inner):
        name = getattr(inner, "name", type(inner).__name__)
        raise ConfigurationError(f"workflow {name} has no edges to choose; take --workflow network")
    return cast(Workflow, dataclasses.replace(cast(Any, inner), edges=texts.edges))

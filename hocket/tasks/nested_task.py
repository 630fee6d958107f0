"""Tasks of one seat that another workflow plays, by a prefix before the task's name: `PREFIX:TASK`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.types import Scenario


@dataclass(frozen=True)
class NestedTask(EnvironmentTask):
    """A task of one seat whose episodes its own `workflow` plays; scenarios and suggestions are the inner task's.

    Attributes:
        inner: the task as one policy plays it. named: its name, with the settings of both.
        prefix: what stands before that.
    """

    inner: EnvironmentTask = field(kw_only=True)
    named: str = field(kw_only=True)

    prefix: ClassVar[str]

    @property
    def name(self) -> str:
        return self.prefix + self.named

    def size(self, split: Split) -> int | None:
        return self.inner.size(split)

    def scenario(self, split: Split, number: int) -> Scenario:
        return self.inner.scenario(split, number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return self.inner.suggest(recipe)


def found_within(
    prefix: str, name: str, settings: Mapping[str, str], hints: Mapping[str, Any]
) -> tuple[EnvironmentTask, dict[str, Any], str]:
    """The task behind a prefix, the settings of `hints`, which are not its own, and its name with all of them.

    Raises:
        ConfigurationError: when it is no environment, and for settings that are wrong.
    """
    from hocket import tasks

    named = name.removeprefix(prefix)
    inner = tasks.find(named + query_of({key: text for key, text in settings.items() if key not in hints}))
    if not isinstance(inner, EnvironmentTask):
        raise ConfigurationError(f"task {name}: {named} is no environment; take one such as maze or household")
    mine = checked(name, {key: text for key, text in settings.items() if key in hints}, hints)
    return inner, mine, named + query_of(settings)


def turn_by_turn(flow: PlayEnvironment) -> dict[str, Any]:
    """How an environment is played, each turn a conversation of its own."""
    return {**{item.name: getattr(flow, item.name) for item in fields(PlayEnvironment)}, "memory": False}


def query_of(settings: Mapping[str, str]) -> str:
    """Settings as they stand behind a task's name."""
    return "?" * bool(settings) + "&".join(f"{key}={text}" for key, text in settings.items())

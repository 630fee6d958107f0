"""Workflows by name, for `--workflow` and `Recipe.workflow`."""

from __future__ import annotations

import inspect
from typing import Any, cast

from hocket.agents.workflows.workflow import Workflow
from hocket.core.discovery import Declaration
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.names import WORKFLOWS, parse_name
from hocket.core.options import checked


def library() -> dict[str, Declaration]:
    """The workflows that `hocket workflows` lists: those that say their `description` too."""
    return {name: declaration for name, declaration in WORKFLOWS.declared.items() if declaration.description}


def find(name: str) -> Workflow:
    """The workflow called `name`, a name of the library or `FILE.py:NAME`; `NAME?key=value&..` sets its fields.

    `outside:FILE.py:FUNCTION` and `outside:COMMAND` are agents written elsewhere.

    Raises:
        ConfigurationError: for an unknown name, with the nearest, or settings it does not have.
    """
    scheme, colon, rest = name.strip().partition(":")
    if colon and scheme + colon in WORKFLOWS:
        return cast(Workflow, WORKFLOWS.load(scheme + colon).named(rest))
    base, settings = parse_name(name.strip(), "workflow")
    workflow: Any = WORKFLOWS.find(base)
    if not inspect.isclass(workflow):
        if settings:
            raise ConfigurationError(f"workflow {base} is an object already, so it takes no settings")
        return checked_workflow(workflow, base)
    if not issubclass(workflow, Workflow):
        raise ConfigurationError(
            f"workflow {base} is no Workflow; write class {workflow.__name__}(hocket.agents.workflows.Workflow)"
        )
    if inspect.isabstract(workflow):
        raise ConfigurationError(f"workflow {base} does not say how it is played; write async def play(...) in it")
    hints = {name: _kind(parameter) for name, parameter in inspect.signature(workflow).parameters.items()}
    values = checked(base, settings, hints, kind="workflow")
    try:
        return checked_workflow(workflow(**values), base)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"workflow {base}: {error}") from error


def checked_workflow(workflow: Any, name: str) -> Workflow:
    """A workflow after a check of its attributes.

    Raises:
        ConfigurationError: with the first wrong attribute.
    """
    if not isinstance(workflow, Workflow):
        kind = type(workflow).__name__
        raise ConfigurationError(f"workflow {name} is a {kind}, not a hocket.agents.workflows.Workflow")
    roles: Any = workflow.roles
    if isinstance(roles, str) or not roles or not all(isinstance(role, str) for role in roles):
        raise ConfigurationError(f"workflow {name}: roles = {roles!r}; write a tuple of names, such as ('solver',)")
    if not inspect.iscoroutinefunction(inspect.unwrap(workflow.play)):
        raise ConfigurationError(f"workflow {name}: play is no coroutine; write async def play(...)")
    for part in ("prompts", "tools"):
        strange = next((role for role in getattr(workflow, part) if role not in roles), None)
        if strange is not None:
            raise ConfigurationError(
                f"workflow {name}: {part} has no role {strange!r} to go to{nearest(strange, roles)}"
            )
    return workflow


def settings_of(workflow: type[Any]) -> dict[str, Any]:
    """The settings that a workflow's name can set, with defaults: its arguments of plain types."""
    known = {name: parameter.default for name, parameter in inspect.signature(workflow).parameters.items()}
    return {name: default for name, default in known.items() if default is None or type(default) in PLAIN}


PLAIN = (int, float, bool, str)


def _kind(parameter: inspect.Parameter) -> type:
    """The value of a setting from text, with the type of its default."""
    kind = type(parameter.default)
    return kind if kind in PLAIN else str

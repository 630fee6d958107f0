"""What agents may call, and where programs run that nobody vouches for."""

from __future__ import annotations

import importlib
from typing import cast

from hocket.core.errors import ConfigurationError, nearest
from hocket.tools.protocol import Call, Tool, carried_out, read_calls
from hocket.tools.sandbox import Finished, Sandbox

__all__ = ["Call", "Finished", "Sandbox", "Tool", "carried_out", "find", "find_all", "read_calls"]

TOOLS = {"calculator": "calculator:Calculator", "python": "python:PythonTool"}
"""Tools that need nothing but their name; those over a corpus or a database belong to their tasks."""


def find(name: str) -> Tool:
    """The tool called `name`, with its usual settings.

    Raises:
        ConfigurationError: for an unknown name, with the nearest.
    """
    if name not in TOOLS:
        raise ConfigurationError(f"there is no tool {name!r}{nearest(name, TOOLS)}")
    module, _, made = TOOLS[name].partition(":")
    return cast(Tool, getattr(importlib.import_module(f"hocket.tools.{module}"), made)())


def find_all(names: str) -> tuple[Tool, ...]:
    """The tools whose names are given with commas between them; none where nothing is given.

    Raises:
        ConfigurationError: as `find`.
    """
    return tuple(find(name.strip()) for name in names.split(",")) if names.strip() else ()

"""What agents may call, and where programs run that nobody vouches for."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import cast

from hocket.agents.tools.protocol import Call, Tool, carried_out, read_calls
from hocket.agents.tools.sandbox import ProgramResult, Sandbox
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.names import parse_name
from hocket.core.options import checked
from hocket.core.user_files import load_object

__all__ = ["Call", "ProgramResult", "Sandbox", "Tool", "carried_out", "check_names", "find", "find_all", "read_calls"]

SERVED = "mcp:"
"""What stands before the command of a tool server."""

TOOLS = {"calculator": "calculator:Calculator", "python": "python:PythonTool"}
"""Tools that need nothing but their name; those over a corpus or a database belong to their tasks."""


SEARCH = "search:"
"""What stands before the path of documents to search."""


def find(name: str) -> Tool:
    """The tool called `name`, with its usual settings, `FILE.py:NAME`, or `search:PATH` over documents of one's own.

    `FILE.py:NAME` is a plain function, a tool, or a class that makes one without arguments.

    PATH is a folder of texts or a `.jsonl` file, see `hocket.agents.tools.documents`; `search:PATH?top=3&words=100`
    says how many passages are answered and how long those of a folder are. `rank` is `words` for BM25, `embedding` for
    the cosine of vectors, or `both`; a run gives the vectors, by its `--embedder`.

    Raises:
        ConfigurationError: for an unknown name, with the nearest, and documents that cannot be read.
    """
    if name.startswith(SEARCH):
        return _search(name)
    if ".py:" in name:
        return _own(name)
    if name not in TOOLS:
        known = f"; choose from {', '.join(TOOLS)} and {SEARCH}PATH" if name == "search" else nearest(name, TOOLS)
        raise ConfigurationError(f"there is no tool {name!r}{known}")
    module, _, made = TOOLS[name].partition(":")
    return cast(Tool, getattr(importlib.import_module(f"hocket.agents.tools.{module}"), made)())


def _own(reference: str) -> Tool:
    """A tool of a user's file."""
    from hocket.agents.tools.function import FunctionTool

    tool = load_object(reference, "tool")
    tool = tool() if inspect.isclass(tool) else FunctionTool(tool) if inspect.isfunction(tool) else tool
    if not (hasattr(tool, "name") and hasattr(tool, "schema") and callable(tool)):
        raise ConfigurationError(
            f"tool {reference} is of type {type(tool).__name__}; name a function, or an object with name, schema and "
            "async __call__(arguments)"
        )
    return cast(Tool, tool)


def _search(name: str) -> Tool:
    from hocket.agents.tools.documents import documents_of
    from hocket.agents.tools.embedding_search import EmbeddedIndex, Rank
    from hocket.agents.tools.search import Index, Search

    path, settings = parse_name(name.removeprefix(SEARCH), "tool")
    options = checked(SEARCH + path, settings, {"top": int, "words": int, "rank": Rank}, kind="tool")
    documents, rank = documents_of(path, options.get("words", 100)), options.get("rank", "words")
    index = Index(documents) if rank == "words" else EmbeddedIndex(documents, rank)
    return cast(Tool, Search(index, options.get("top", 3)))


def find_all(names: str) -> tuple[Tool, ...]:
    """The tools whose names are given with commas between them; none where nothing is given.

    `mcp:COMMAND` are all that the tool server has which COMMAND starts, see `hocket.agents.tools.mcp`.

    Raises:
        ConfigurationError: as `find`, for a server that does not start, and for two tools of one name.
    """
    tools: list[Tool] = []
    for name in names.split(",") if names.strip() else ():
        tools += _served(name.strip()) if name.strip().startswith(SERVED) else [find(name.strip())]
    check_names(tools, f" in {names!r}")
    return tuple(tools)


def check_names(tools: Sequence[Tool], where: str = "") -> None:
    """Raises `ConfigurationError` where two tools have one name, saying `where`."""
    names = [tool.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"two tools are called {twice!r}{where}; an agent could not tell them apart")


def _served(name: str) -> Sequence[Tool]:
    from hocket.agents.tools.mcp import server_of

    return server_of(name.removeprefix(SERVED)).tools()

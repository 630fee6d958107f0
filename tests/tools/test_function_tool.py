"""A user's function as a tool."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hocket.agents.tools import find, find_all
from hocket.agents.tools.function import FunctionTool
from hocket.core.errors import ConfigurationError

FILE = '''
class Clock:
    name = "clock"
    schema = {"type": "function", "function": {"name": "clock"}}

    async def __call__(self, arguments):
        return "noon"


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: what is doubled
    """
    return 2 * number


async def later(word: str) -> str:
    """A word, later.

    Args:
        word: which
    """
    return word


def bare(x):
    return x


NUMBER = 3
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(FILE)
    return tmp_path / "own.py"


def answer(tool: Any, **arguments: Any) -> str:
    return asyncio.run(tool(arguments))


def test_functions_and_objects_of_a_file(file: Path) -> None:
    double, later, clock = find_all(f"{file}:double,{file}:later,{file}:Clock")
    assert [tool.name for tool in (double, later, clock)] == ["double", "later", "clock"]
    function = double.schema["function"]
    assert function["parameters"]["properties"] == {"number": {"type": "integer", "description": "what is doubled"}}
    assert (answer(double, number=4), answer(later, word="hi"), answer(clock)) == ("8", "hi", "noon")
    assert answer(double, numbr=1).startswith("error: TypeError: double() got an unexpected keyword")


def test_what_is_no_tool(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="give every argument a type, and a line under Args"):
        find(f"{file}:bare")
    with pytest.raises(ConfigurationError, match="is of type int; name a function"):
        find(f"{file}:NUMBER")
    with pytest.raises(ConfigurationError, match="has no 'dubble'; did you mean 'double'"):
        find(f"{file}:dubble")
    with pytest.raises(ConfigurationError, match="tool <lambda>"):
        FunctionTool(lambda x: x)

"""The interpreter as a tool."""

from __future__ import annotations

import asyncio

import pytest

from hocket.agents.tools.python import PythonTool, report
from hocket.agents.tools.sandbox import ProgramResult, Sandbox, available
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.errors import ConfigurationError
from hocket.testing import rehearse
from hocket.types import Scenario

LOCKS = available()[0]
needs_sandbox = pytest.mark.skipif(
    not {"limits", "seccomp"} <= set(LOCKS) or not {"namespaces", "landlock"} & set(LOCKS),
    reason=f"this machine has only the layers {LOCKS}",
)


def run(code: object, tool: PythonTool | None = None) -> str:
    return asyncio.run((tool or PythonTool())({"code": code}))


@needs_sandbox
def test_it_tells_what_was_printed_and_the_last_value() -> None:
    assert run("print('a')\n6 * 7") == "a\n42"
    assert run("x = 1") == "(no output)"
    assert run("1 / 0").endswith("ZeroDivisionError: division by zero")
    assert run(3) == "error: python needs code"
    assert asyncio.run(PythonTool()({})) == "error: python needs code"


@needs_sandbox
def test_it_tells_when_it_was_stopped() -> None:
    tool = PythonTool(Sandbox(seconds=1.5, cpu=1))
    assert run("print('a', flush=True)\nimport time\ntime.sleep(9)", tool) == "a\n[stopped: it ran too long]"
    assert run("while True: print('x' * 99)", tool).endswith("\n[stopped: it printed too much]")
    assert run("import ctypes\nctypes.string_at(0)") == "[ended by signal 11]"


@needs_sandbox
def test_nothing_lasts_between_calls() -> None:
    assert run("x = 1\nimport math\nmath.pi = 3") == "(no output)"
    assert "NameError" in run("x")
    assert run("import math\nmath.pi > 3") == "True"


@pytest.mark.parametrize("most", [1, 4, 5, 6, 7, 50, 99, 100, 101])
def test_long_answers_lose_their_middle(most: int) -> None:
    text = "".join(chr(97 + n % 26) for n in range(100))
    shown = report(ProgramResult(text, 0), most)
    assert len(shown) == min(most, 100)
    if 7 <= most < 100:
        before, _, after = shown.partition("\n...\n")
        assert text.startswith(before)
        assert text.endswith(after)
        assert abs(len(before) - len(after)) <= 1
    with pytest.raises(ConfigurationError, match="at least 1"):
        PythonTool(most=0)


@needs_sandbox
def test_an_agent_may_compute_with_it() -> None:
    call = '<tool_call>{"name": "python", "arguments": {"code": "sum(n * n for n in range(100))"}}</tool_call>'
    (found,) = rehearse(
        ToolUse("python"), Scenario("s", "Sum of squares below 100?"), [call, "<answer>328350</answer>"]
    )
    assert found.info["calls"][0]["result"] == "328350"
    assert found.turns[1].prompt[-1] == {"role": "tool", "content": "328350"}

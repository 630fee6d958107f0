"""Tools of a server of the Model Context Protocol, against the protocol's own package."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_runs import TINY, call

from hocket.core.errors import ConfigurationError
from hocket.tools import Call, Tool, carried_out, find_all
from hocket.tools import mcp as served

SERVER = '''
import os, time
from mcp.server import MCPServer

server = MCPServer("reckoner")

@server.tool()
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b

@server.tool()
def refuse(why: str) -> str:
    raise ValueError(why)

@server.tool()
def leave() -> str:
    os._exit(3)

@server.tool()
def shout() -> str:
    return "a" * 100_000

@server.tool()
async def wait() -> str:
    import asyncio
    await asyncio.sleep(60)

server.run()
'''


MORTAL = """
import asyncio, os
from mcp.server import MCPServer

server = MCPServer("mortal")

@server.tool()
async def count(n: int) -> int:
    await asyncio.sleep(0.01)
    if n == 60:
        os._exit(1)
    return n

server.run()
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("mcp") / "server.py"
    file.write_text(SERVER)
    yield f"mcp:{sys.executable} {file}"
    served.server_of(f"{sys.executable} {file}").close()


def answers(tool: Tool, *arguments: dict[str, object]) -> list[str]:
    async def asked() -> list[str]:
        return list(await asyncio.gather(*(carried_out(Call(tool.name, one), [tool]) for one in arguments)))

    return asyncio.run(asked())


def test_a_servers_tools_are_called_side_by_side(command: str) -> None:
    tools = {tool.name: tool for tool in find_all(f"{command},calculator")}
    assert list(tools) == ["add", "refuse", "leave", "shout", "wait", "calculator"]
    schema = tools["add"].schema["function"]
    assert schema["description"] == "The sum of two numbers."
    assert set(schema["parameters"]["properties"]) == {"a", "b"}
    assert answers(tools["add"], *({"a": 2, "b": n} for n in range(5))) == ["2", "3", "4", "5", "6"]
    assert answers(tools["add"], {"a": "x"})[0].startswith("error: ")
    assert answers(tools["refuse"], {"why": "no"})[0].startswith("error: ")
    assert len(answers(tools["shout"], {})[0]) == 20_000


def test_a_server_that_ends_costs_one_answer(command: str) -> None:
    tools = {tool.name: tool for tool in find_all(command)}
    assert answers(tools["leave"], {}) == ["error: the server of leave has ended"]
    assert answers(tools["add"], {"a": 2, "b": 2}) == ["4"]


def test_a_server_that_dies_under_many_calls_costs_those_alone(tmp_path: Path) -> None:
    """It ends with 20 calls under way; those are told so, and the rest of 200 have their answers."""
    file = tmp_path / "server.py"
    file.write_text(MORTAL)
    command = f"{sys.executable} {file}"
    (tool,) = find_all(f"mcp:{command}")

    async def asked() -> list[str]:
        gate = asyncio.Semaphore(20)

        async def one(number: int) -> str:
            async with gate:
                return await carried_out(Call(tool.name, {"n": number}), [tool])

        return list(await asyncio.gather(*map(one, range(200))))

    found = asyncio.run(asked())
    lost = [said for said in found if said == "error: the server of count has ended"]
    assert 1 <= len(lost) <= 20
    assert [said for number, said in enumerate(found) if said != str(number)] == lost
    served.server_of(command).close()


def test_a_server_that_cannot_be_started_again_is_not_tried_at_every_call(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    tools = {tool.name: tool for tool in find_all(f"mcp:{sys.executable} {file}")}
    file.write_text("raise SystemExit('no more')")
    assert answers(tools["leave"], {}) == ["error: the server of leave has ended"]
    begun = time.monotonic()
    found = answers(tools["add"], *({"a": n, "b": n} for n in range(300)))
    assert time.monotonic() - begun < 20
    (words,) = set(found)
    assert words.startswith("error: the tool server ")
    assert words.endswith('ended before it said what tools it has and said last "no more"')


def test_a_tool_that_hangs_is_an_error(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "ANSWERING", 0.2)
    assert answers(find_all(command)[4], {}) == ["error: wait gave no answer within 0.2 s"]


def test_a_run_calls_what_a_server_has(command: str, tmp_path: Path) -> None:
    more = ["--task", "sums", "--tools", command, "--steps", "1", "--recipe", "grpo"]
    said = call("train", *TINY, *more, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 0, said.err
    assert "tool-use?tools_of=mcp" in (tmp_path / "run" / "config.yaml").read_text()
    rows = [json.loads(line) for line in (tmp_path / "run" / "rollouts" / "step-000001.jsonl").read_text().splitlines()]
    turn = rows[0]["turns"][0]
    assert len(turn["observation"]) > 2 * len(turn["prompt"][0]["content"])  # The template lists the tools.


REFUSED = {
    "no program": ("mcp:nosuchprogram --now", "'nosuchprogram --now' is no program that can be found"),
    "garbage": ("mcp:echo hello", "'echo hello' ended before it said what tools it has"),
    "its reason": (f"mcp:{sys.executable} -c 'raise SystemExit(\"no key\")'", 'and said last "no key"; run it by hand'),
    "nothing": ("mcp:", "names no tool server; write mcp:COMMAND"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_does_not_start_is_a_sentence(case: str) -> None:
    names, words = REFUSED[case]
    with pytest.raises(ConfigurationError) as error:
        find_all(names)
    assert words in str(error.value)


def test_a_server_that_says_nothing_or_has_no_tools_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "STARTING", 0.5)
    with pytest.raises(ConfigurationError, match=r"did not say within 0\.5 s what tools it has"):
        find_all("mcp:sleep 30")
    monkeypatch.undo()
    (tmp_path / "none.py").write_text('from mcp.server import MCPServer\nMCPServer("none").run()\n')
    with pytest.raises(ConfigurationError, match="has no tools"):
        find_all(f"mcp:{sys.executable} {tmp_path}/none.py")


def test_two_tools_of_one_name_and_another_workflow_are_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two tools are called 'calculator'"):
        find_all("calculator,calculator")
    more = ["--tools", "calculator", "--workflow", "debate", "--runs", tmp_path, "--run", "run"]
    said = call("train", *TINY, *more)
    assert said.code == 2
    assert "tools go to the workflow tool-use" in " ".join(said.err.split())

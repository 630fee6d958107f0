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

from hocket.agents.tools import Call, Tool, carried_out, find, find_all
from hocket.agents.tools import mcp as served
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.errors import ConfigurationError

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
    assert words.endswith('ended before it listed its tools and wrote last "no more"')


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


# ---------------------------------------------------------------- what servers may say

RAW = """
import json, os, sys
pages, answers = json.load(open(sys.argv[1]))
print("this is no message", flush=True)
for line in sys.stdin:
    asked, found = json.loads(line), {}
    if asked.get("id") is None:
        continue
    sys.stdout.buffer.write(b"\\xff junk {[\\n")
    if asked["method"] == "initialize":
        found = {"protocolVersion": asked["params"]["protocolVersion"], "serverInfo": {"name": "raw", "version": "1"}}
        found["capabilities"] = {"tools": {"listChanged": True}}
    if asked["method"] == "tools/list":
        found = pages[(asked.get("params") or {}).get("cursor") or ""]
    if asked["method"] == "tools/call":
        found = answers[asked["params"]["name"]]
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
    if found == "die":
        os._exit(1)
    kind = "error" if "code" in found else "result"
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], kind: found}), flush=True)
"""


class Raw:
    """Servers that list these pages, by cursor, and give these answers, by tool; ended with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.servers = folder, list[served.Server]()
        (folder / "raw.py").write_text(RAW)

    def command(self, pages: dict[str, object], answers: dict[str, object] | None = None) -> str:
        file = self.folder / f"{len(list(self.folder.iterdir()))}.json"
        file.write_text(json.dumps([pages, answers or {}]))
        return f"{sys.executable} {self.folder / 'raw.py'} {file}"

    def __call__(self, pages: dict[str, object], answers: dict[str, object] | None = None) -> served.Server:
        self.servers.append(served.Server(self.command(pages, answers)))
        return self.servers[-1]


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Raw]:
    made = Raw(tmp_path)
    yield made
    for server in made.servers:
        server.close()


def listed(*names: str, more: str | None = None, **schema: object) -> dict[str, object]:
    tools = [{"name": name, "inputSchema": {"type": "object", **schema}} for name in names]
    return {"tools": tools, **({} if more is None else {"nextCursor": more})}


def test_tools_of_all_pages_are_there_once(raw: Raw) -> None:
    pages = {"": listed("a", "b", more="x"), "x": listed(more="y"), "y": listed("b", "c", more="")}
    assert [tool.name for tool in raw(pages).tools()] == ["a", "b", "c"]


def test_a_schema_has_what_templates_read(raw: Raw) -> None:
    server = raw({"": listed("a")})
    (tool,) = server.tools()
    assert tool.schema["function"]["parameters"] == {"type": "object", "properties": {}}


ENDLESS = {"": listed("a", more="1"), "1": listed("b", more="2"), "2": listed("c", more="1")}
LISTS = {
    "a cursor again": (ENDLESS, "gives a list of tools that does not end (after 3 of them)"),
    "its own cursor": ({"": listed("a", more="1"), "1": listed("b", more="1")}, "does not end"),
    "one name twice": ({"": listed("a", more="1"), "1": listed("a", required=["x"])}, "has two tools called 'a'"),
    "arguments that are text": (
        {"": {"tools": [{"name": "a", "inputSchema": {"type": "string"}}]}},
        "tools.0.inputSchema.type: Input should be 'object'",
    ),
    "no name": ({"": listed("  ")}, "has a tool called '  ', which an agent cannot call"),
    "a name of two lines": ({"": listed("a\nb")}, "which an agent cannot call"),
    "no schema": ({"": {"tools": [{"name": "a", "inputSchema": None}]}}, "lists its tools in the wrong form"),
    "no list": ({"": {"tools": 7}}, "lists its tools in the wrong form"),
    "refuses": ({"": {"code": -32601, "message": "no such method"}}, "does not say what tools it has: no such method"),
    "dies at the second page": ({"": listed("a", more="1"), "1": "die"}, "ended before it listed its tools"),
}


@pytest.mark.parametrize("case", LISTS)
def test_a_list_of_tools_that_is_no_good_is_a_sentence(case: str, raw: Raw) -> None:
    pages, words = LISTS[case]
    with pytest.raises(ConfigurationError) as error:
        raw(pages)
    assert words in str(error.value)


def test_a_list_that_goes_on_and_on_is_refused(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "MOST", 5)
    pages = {str(n or ""): listed(f"t{n}", more=str(n + 1)) for n in range(9)}
    with pytest.raises(ConfigurationError, match="does not end"):
        raw(pages)


def test_two_servers_with_one_name_are_refused(raw: Raw) -> None:
    one, other = (raw.command({"": listed(name, "same")}) for name in ("a", "b"))
    with pytest.raises(ConfigurationError, match="two tools are called 'same'"):
        find_all(f"mcp:{one},mcp:{other}")
    served.server_of(one).close()
    served.server_of(other).close()
    same = find("calculator")
    with pytest.raises(ConfigurationError, match="two tools are called 'calculator'"):
        ToolUse([same, same])


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
FILE = {"type": "resource", "resource": {"uri": "file:///f", "mimeType": "text/plain", "text": "seven"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}}
LINK = {"type": "resource_link", "name": "report", "uri": "file:///r", "description": "of May"}
ANSWERS: dict[str, tuple[object, str]] = {
    "words": ({"content": [text("one"), text("two")]}, "one\ntwo"),
    "structured": ({"content": [], "structuredContent": {"answer": 7, "é": [None]}}, '{"answer": 7, "é": [null]}'),
    "structured-zero": ({"content": [], "structuredContent": {"n": 0}}, '{"n": 0}'),
    "structured-twice": ({"content": [text("7")], "structuredContent": {"result": 7}}, "7"),
    "structured-besides": ({"content": [text("done")], "structuredContent": {"a": 7}}, 'done\n{"a": 7}'),
    "structured-again": (
        {
            "content": [text('{"a": "l\\n", "b": [1.5, true, null]}')],
            "structuredContent": {"a": "l\n", "b": [1.5, True, None]},
        },
        '{"a": "l\\n", "b": [1.5, true, null]}',
    ),
    "blank-picture": (
        {"content": [text(" "), {"type": "image", "data": "AA==", "mimeType": "image/png"}]},
        "error: blank-picture answered with a picture (image/png), which cannot be read here",
    ),
    "structured-empty-words": ({"content": [text("")], "structuredContent": {"a": 1}}, '{"a": 1}'),
    "picture": (
        {"content": [PICTURE]},
        "error: picture answered with a picture (image/png), which cannot be read here",
    ),
    "sound": (
        {"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]},
        "error: sound answered with a recording (audio/wav), which cannot be read here",
    ),
    "picture-and-words": (
        {"content": [text("see"), PICTURE]},
        "see\n[a picture (image/png), which cannot be read here]",
    ),
    "file": ({"content": [FILE]}, "seven"),
    "blob": ({"content": [BLOB]}, "error: blob answered with a file file:///b, which cannot be read here"),
    "link": ({"content": [LINK]}, "report: file:///r (of May)"),
    "nothing": ({"content": []}, "(no output)"),
    "failed": ({"content": [text("no such town")], "isError": True}, "error: no such town"),
    "failed-in-silence": ({"content": [], "isError": True}, "error: failed-in-silence failed and gave no reason"),
    "failed-structured": ({"content": [], "structuredContent": {"code": 4}, "isError": True}, 'error: {"code": 4}'),
    "refused": ({"code": -32602, "message": "wrong arguments"}, "error: wrong arguments"),
    "new part": (
        {"content": [{"type": "video", "data": "AAAA"}]},
        "error: new part gave an answer of the wrong form: ",
    ),
    "no content": ({"structuredContent": {"n": 0}}, "error: no content gave an answer of the wrong form: "),
    "no parts": ({"content": 7}, "error: no parts gave an answer of the wrong form: "),
}


def test_every_answer_comes_back_in_words_or_as_an_error(raw: Raw) -> None:
    """With lines between that are no messages, and a list that is said to have changed. No answer ends the server."""
    server = raw({"": listed(*ANSWERS)}, {name: answer for name, (answer, _) in ANSWERS.items()})
    for name, (_, words) in ANSWERS.items():
        found = asyncio.run(server.call(name, {}))
        assert found.startswith(words) if words.endswith(": ") else found == words


def test_an_answer_that_its_own_schema_does_not_have_costs_that_call_alone(raw: Raw) -> None:
    due = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    page = {
        "tools": [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": due} for name in ("bad", "good")]
    }
    server = raw(
        {"": page}, {name: {"content": [], "structuredContent": {"n": n}} for name, n in (("bad", "x"), ("good", 1))}
    )
    assert asyncio.run(server.call("bad", {})).startswith("error: bad gave an answer of the wrong form: ")
    assert asyncio.run(server.call("good", {})) == '{"n": 1}'


REFUSED = {
    "no program": ("mcp:nosuchprogram --now", "'nosuchprogram --now' is no program that can be found"),
    "garbage": ("mcp:echo hello", "'echo hello' ended before it listed its tools"),
    "its reason": (
        f"mcp:{sys.executable} -c 'raise SystemExit(\"no key\")'",
        'and wrote last "no key"; run it by hand',
    ),
    "an open quote": ("mcp:python 'a", "cannot be started: No closing quotation"),
    "a folder": ("mcp:/", "cannot be started: "),
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

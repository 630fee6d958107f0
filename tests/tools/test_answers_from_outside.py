"""What tools outside say is kept by episode and question, and a run done again hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY, call, train

from hocket.agents.tools import Call, carried_out
from hocket.agents.tools.outside_answers import ANSWERS, LONGEST, Answers, ToolFailed
from hocket.core.errors import HocketError

MOODY = """
import random
from dataclasses import dataclass

from hocket.agents.tools import Call, carried_out
from hocket.agents.workflows import Outcome, Workflow

DRAWS = random.Random()

@dataclass
class Moody:
    outside: bool
    name = "mood"
    schema = {}

    async def __call__(self, arguments):
        return str(DRAWS.random())

class Asks(Workflow):
    roles = ("policy",)
    outside = True

    async def play(self, scenario, team):
        said = [await carried_out(Call("mood", {}), [Moody(self.outside)]) for _ in range(2)]
        assert said[0] != said[1]
        reply = await team.policy([*scenario.messages, {"role": "user", "content": said[1]}])
        return Outcome(answer=reply.text)

class Forgets(Asks):
    outside = False
"""


class Kept(dict[str, Any]):
    """A journal in memory."""

    def put(self, key: str, value: Any) -> None:
        self[key] = value


@dataclass
class Tool:
    """Answers with what comes next; an exception is raised."""

    says: list[Any]
    outside: bool = True
    name: str = "tool"
    schema: Mapping[str, Any] = field(default_factory=dict)

    async def __call__(self, arguments: Mapping[str, Any]) -> Any:
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


def heard(tool: Tool, kept: Kept | None, *questions: object, episode: str = "one") -> list[str]:
    """What one episode hears; failures begin with `!`."""

    async def asked() -> list[str]:
        ANSWERS.set(Answers(episode, kept))
        found = []
        for question in questions:
            try:
                found.append(await carried_out(Call("tool", {"q": question}), [tool]))
            except ToolFailed as failed:
                found.append(f"!{failed}")
        return found

    return asyncio.run(asked())


def test_an_episode_hears_again_what_it_heard() -> None:
    kept = Kept()
    assert heard(Tool(["a", "b", "c"]), kept, 1, 1, 2) == ["a", "b", "c"]
    assert heard(Tool([]), kept, 2, 1, 1) == ["c", "a", "b"]
    assert heard(Tool(["d"]), kept, 1, episode="other") == ["d"]
    assert heard(Tool(["e", "f"], outside=False), kept, 1, 1) == ["e", "f"]
    assert heard(Tool(["g", "h"]), None, 1, 1) == ["g", "h"]


def test_a_tool_that_broke_breaks_again() -> None:
    kept = Kept()
    broken = Tool([ValueError("no " + "way" * 999), b"bytes", "well"])
    found = heard(broken, kept, 1, 2, 3)
    assert found[0].startswith("!tool 'tool' raised ValueError: no way")
    assert len(found[0]) < 400
    assert found[1] == "!tool 'tool' answered with a bytes; a tool answers in words"
    assert heard(Tool([]), kept, 1, 2, 3) == found


def test_an_answer_is_text_of_bounded_length() -> None:
    assert heard(Tool(["a\ud800b", "x" * 99_999]), None, 1, 2) == ["a?b", "x" * LONGEST]


def test_limits_behind_a_tool_pass_through() -> None:
    with pytest.raises(HocketError, match="spent"):
        heard(Tool([HocketError("spent")]), Kept(), 1)


def test_a_run_done_again_hears_its_tools(tmp_path: Path) -> None:
    file = tmp_path / "moods.py"
    file.write_text(MOODY)
    for name, code in (("Asks", 0), ("Forgets", 1)):
        train(tmp_path, name, "--workflow", f"{file}:{name}", "--update.lr", "1e-2", steps=2, tiny=TINY)
        assert call("replay", tmp_path / name).code == code

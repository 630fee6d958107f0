"""The workflow of docs/tools.md runs as it stands, and shows its tools to one role alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hocket.agents.workflows.chat import Chat
from hocket.nano.tokenizer import build_tokenizer
from hocket.testing import Part, rehearse, tool_call
from hocket.types import Scenario

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"


def test_the_page_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "own"}
    exec(compile(block, "own.py", "exec"), names)
    teller = Part("<answer>42</answer>")
    replies = {"reckoner": [tool_call("calculator", expression="6 * 7"), "It is 42."], "teller": teller}
    chat = Chat(build_tokenizer())
    (found,) = rehearse(names["ReckonAndTell"](), Scenario("s", "What is 6 * 7?"), replies, chat=chat)
    assert found.failure is None
    assert found.info["answer"] == "<answer>42</answer>"
    assert [call["result"] for call in found.info["calls"]] == ["42"]
    teller.assert_asked("What is 6 * 7?\nIt is 42.")
    told = {turn.role: chat.render(turn.observation.tolist()) for turn in found.turns if turn.parent is None}
    assert "expression" in told["reckoner"]
    assert "expression" not in told["teller"]

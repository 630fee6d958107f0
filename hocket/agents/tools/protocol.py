"""What a tool is, and reading an assistant's calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hocket.agents.tools.outside_answers import ANSWERS, asked
from hocket.core.errors import nearest
from hocket.core.markup import whole

_PIECES = re.compile(r"<think>.*?(?:</think>|\Z)|<tool_call>(.*?)(</tool_call>|\Z)", re.DOTALL)
"""A thought, or a call: its inside, and what closes it."""

FORM = '{"name": "...", "arguments": {...}}'


class Tool(Protocol):
    """Something an agent may call by name. It answers in words, and never raises for what it was asked.

    One that says `outside = True` asks something that may answer otherwise another time, and leaves no trace in this
    process. What it answers in a run is kept in the journal, and a resumed run hears that in place of a call.
    """

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """In OpenAI's function form, which `apply_chat_template(tools=...)` takes."""
        ...

    async def __call__(self, arguments: Mapping[str, Any]) -> str: ...


@dataclass(frozen=True)
class Call:
    """One call as it was written. `problem` says why it cannot be carried out."""

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


def read_calls(text: str, *, cut: bool = False) -> list[Call]:
    """The calls in a reply, in order: the JSON in each `<tool_call>..</tool_call>`; a thought calls nothing, also one
    that the prompt opened or that is never closed.

    This is how the shipped base and most chat models of Hugging Face write calls. `arguments` may be an object, or
    text that spells one. What cannot be read is a call with a `problem`, and so is one that is never closed, unless the
    reply was `cut` by its length: then it was not yet a call.
    """
    return [_read(call[1]) for call in _called(text) if call[2] or not cut]


def first_call(text: str) -> int | None:
    """Where the first call in a reply begins; None without one."""
    begun = len(whole(text)) - len(text)
    return next((call.start() - begun for call in _called(text)), None)


def _called(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _PIECES.finditer(whole(text)) if match[1] is not None)


def _read(text: str) -> Call:
    try:
        parsed = json.loads(text)
        arguments = parsed.get("arguments", {}) if isinstance(parsed, dict) else None
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
    except (ValueError, RecursionError):
        return Call(problem=f"error: this is no JSON; write {FORM}")
    if not isinstance(parsed, dict) or not isinstance(parsed.get("name"), str):
        return Call(problem=f"error: write {FORM}")
    if not isinstance(arguments, dict):
        return Call(parsed["name"], problem=f"error: arguments must be an object; write {FORM}")
    return Call(parsed["name"], arguments)


async def carried_out(call: Call, tools: Sequence[Tool]) -> str:
    """A tool's answer; for a wrong call the answer says what is wrong.

    Raises:
        ToolFailed: when the tool itself breaks, see `hocket.agents.tools.outside_answers`.
    """
    if call.problem is not None:
        return call.problem
    for tool in tools:
        if tool.name == call.name:
            answers = ANSWERS.get()
            return await (asked(tool, call.arguments) if answers is None else answers.of(tool, call.arguments))
    return f"error: there is no tool {call.name[:40]!r}{nearest(call.name[:40], [tool.name for tool in tools])}"

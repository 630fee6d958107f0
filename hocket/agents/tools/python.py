"""A Python interpreter as a tool: each call is a fresh program in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.agents.tools.sandbox import ProgramResult, Sandbox
from hocket.core.errors import ConfigurationError

_ENDED = {
    "seconds": "[stopped: it ran too long]",
    "cpu": "[stopped: it computed too long]",
    "output": "[stopped: it printed too much]",
}


@dataclass(frozen=True)
class PythonTool:
    """Runs a program and answers with what it printed, the value of its last expression and any error included.

    Nothing lasts from one call to the next. The answer is text from the program: it may say anything.

    Attributes:
        sandbox: how the program is locked in.
        most: characters of an answer; of a longer one the middle is left out.
    """

    sandbox: Sandbox = Sandbox()
    most: int = 1000

    name: ClassVar[str] = "python"
    outside: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "function",
        "function": {
            "name": "python",
            "description": "Runs a Python program and returns what it prints. Nothing is kept between calls.",
            "parameters": {
                "type": "object",
                "properties": {"code": {"type": "string"}},
                "required": ["code"],
            },
        },
    }

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ConfigurationError(f"the python tool answers with at least 1 character, not {self.most}")

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        code = arguments.get("code")
        if not isinstance(code, str):
            return "error: python needs code"
        return report(await self.sandbox.run(code, echo=True), self.most)


def report(finished: ProgramResult, most: int) -> str:
    """What a program printed and how it ended, in at most `most` characters."""
    ended = _ENDED.get(finished.ending, "")
    if not ended and finished.code > 128:
        ended = f"[ended by signal {finished.code - 128}]"
    text = "\n".join(part for part in (finished.output.strip("\n"), ended) if part) or "(no output)"
    if len(text) <= most:
        return text
    gap = "\n...\n"
    shown = max(0, most - len(gap))
    return (text[: shown - shown // 2] + gap + text[len(text) - shown // 2 :])[:most]

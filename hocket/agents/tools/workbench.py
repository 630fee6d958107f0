"""A module with a bug, and the tools by which an agent looks at it, changes it and runs its tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.agents.tools.bugs import Bug, gives, shown
from hocket.agents.tools.edits import refusal
from hocket.agents.tools.sandbox import Sandbox

MOST_NEW = 200
"""Characters that an edit may put in."""


class Workbench:
    """One episode's copy of a module with a bug.

    Args:
        bug: what is wrong with it. sandbox: where its tests run.
    """

    def __init__(self, bug: Bug, sandbox: Sandbox) -> None:
        self.bug, self.sandbox, self.lines = bug, sandbox, bug.lines

    @property
    def file(self) -> str:
        """The module's name as a file."""
        return self.bug.original.routine.file

    @property
    def tools(self) -> Sequence[BenchTool]:
        """What an agent may do here."""
        line = {"line": "its number, as `read` shows it"}
        edit = {**line, "old": "text that stands once on the line", "new": "text in its place"}
        return (
            BenchTool("list", "The files there are.", {}, self._list),
            BenchTool("read", "The function that fails, with the numbers of its lines.", {}, self._read),
            BenchTool("edit", "Puts a text in the place of another on one line.", edit, self._edit),
            BenchTool("test", "Runs the tests and tells of the first that fails.", {}, self._test),
        )

    def edited(self, arguments: Mapping[str, Any]) -> str:
        """Makes an edit, or says why it cannot be made."""
        old, new, number = arguments.get("old"), arguments.get("new"), _number(arguments.get("line"))
        if not isinstance(old, str) or not isinstance(new, str) or not old or number is None:
            return "error: edit needs a line, old and new"
        if len(new) > MOST_NEW or len(new.splitlines()) > 1:
            return f"error: new is one line of at most {MOST_NEW} characters"
        original = self.bug.original
        if not original.first <= number <= original.last or number in original.hidden:
            return f"error: line {number} is not shown"
        text = self.lines[number - 1]
        if text.count(old) != 1:
            return f"error: old stands {text.count(old)} times on line {number}"
        lines = (*self.lines[: number - 1], text.replace(old, new), *self.lines[number:])
        refused = refusal(lines, original.lines, original.first, original.last)
        if refused is not None:
            return f"error: {refused}"
        self.lines = lines
        return f"{number} {self.lines[number - 1]}"

    def wrong(self, *, shown: bool = False) -> list[tuple[str, str, str]]:
        """Calls of the tests that give something else than they should: the call, what it gives, what it should.

        Of all tests, or of those alone that may be `shown`.
        """
        if self.lines == self.bug.lines:
            return [(self.bug.call, self.bug.found, self.bug.wanted)]
        tests = self.bug.original.tests if shown else self.bug.original.all_tests
        results = gives(self.lines, tuple(call for call, _ in tests), self.sandbox)
        return [(call, gave, wanted) for (call, wanted), gave in zip(tests, results, strict=True) if gave != wanted]

    async def _list(self, arguments: Mapping[str, Any]) -> str:
        return self.file

    async def _read(self, arguments: Mapping[str, Any]) -> str:
        return shown(self.lines, self.bug.original)

    async def _edit(self, arguments: Mapping[str, Any]) -> str:
        return self.edited(arguments)

    async def _test(self, arguments: Mapping[str, Any]) -> str:
        changed = self.lines != self.bug.lines
        wrong = await self.sandbox.apart(lambda: self.wrong(shown=True)) if changed else self.wrong(shown=True)
        if not wrong:
            return "all tests pass"
        call, gave, wanted = wrong[0]
        behaviour = f"raises {gave[1:]}" if gave.startswith("!") else f"gives {gave}"
        return f"{call} {behaviour}, not {wanted}"


@dataclass(frozen=True)
class BenchTool:
    """One of the tools: what it is for, its arguments with what each is, and what it does."""

    name: str
    about: str
    takes: Mapping[str, str]
    act: Callable[[Mapping[str, Any]], Awaitable[str]]

    @property
    def schema(self) -> Mapping[str, Any]:
        """What it takes, in the form of `apply_chat_template(tools=...)`."""
        properties = {name: {"type": "string", "description": about} for name, about in self.takes.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.takes)}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.about, "parameters": parameters},
        }

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        return await self.act(arguments)


def _number(value: Any) -> int | None:
    """A line's number, given as a number or as digits."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 9:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None

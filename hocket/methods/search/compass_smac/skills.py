"""Skills: small programs that act on what they are shown, kept in a library that only checked ones enter.

A skill is Python source with one function of one argument, `def NAME(view)`, whose docstring says what it is for. It is
checked and run in the sandbox alone: a program that nobody vouches for never runs here.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.agents.tools.sandbox import Sandbox
from hocket.agents.tools.unit_tests import examine
from hocket.core.errors import ConfigurationError
from hocket.core.texts import about

SANDBOX = Sandbox(seconds=20.0, cpu=1.0, output=1 << 20)
"""Where skills run; a step of many agents prints a line for each."""

LONGEST = 4000
"""Characters of a skill."""

Call = tuple[str, Any]
"""A program, and the view it is to act on: plain data."""


def name_of(program: str) -> str | None:
    """What the skill in a program is called; None where there is not exactly one function of one argument."""
    try:
        body = ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in body if isinstance(node, ast.FunctionDef)]
    if len(found) != 1:
        return None
    wants = found[0].args
    one = len(wants.args) == 1 and not (wants.posonlyargs or wants.kwonlyargs or wants.vararg or wants.kwarg)
    return found[0].name if one else None


def refusal(program: str, tests: Sequence[str], sandbox: Sandbox = SANDBOX) -> str | None:
    """Why a skill must not enter a library, in words for whoever wrote it; None where it may.

    Args:
        tests: as `hocket.agents.tools.unit_tests.examine` takes them, with `{skill}` for its name; all must pass.
    """
    name = name_of(program)
    if name is None:
        return "it is not one Python function of one argument"
    if len(program) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    if not about(program):
        return "its function has no docstring that says what it is for"
    try:
        verdict = examine(program, [test.replace("{skill}", name) for test in tests], "", sandbox)
    except ConfigurationError as error:
        return str(error)
    return None if all(verdict.passed) else f"its check failed: {verdict.reason}"


def admitted(
    library: Mapping[str, str], program: str, tests: Sequence[str], sandbox: Sandbox = SANDBOX
) -> tuple[dict[str, str], str | None]:
    """The library with the skill in it, in place of one of its name, and None; else the library as it was, and why."""
    why = refusal(program, tests, sandbox)
    if why is not None:
        return dict(library), why
    return {**library, str(name_of(program)): program}, None


def act(calls: Sequence[Call], sandbox: Sandbox = SANDBOX) -> list[str | None]:
    """What each program says to its view, all in one process; None where it says no text, fails or does not end.

    Programs of one call share a process and its limits. Where that does not end by itself each program has one of its
    own, so that one which does not end costs its own answers alone. Equal programs with equal views are run once.
    """
    programs = list(dict.fromkeys(program for program, _ in calls))
    places = {program: place for place, program in enumerate(programs)}
    asked = list(dict.fromkeys((places[program], repr(view)) for program, view in calls))
    said = _said(programs, asked, sandbox)
    if said is None and len(programs) == 1:
        said = {}
    elif said is None:
        said = {}
        for place, program in enumerate(programs):
            own = [one for one in asked if one[0] == place]
            found = _said([program], [(0, view) for _, view in own], sandbox) or {}
            said |= {(place, view): text for (_, view), text in found.items()}
    return [said.get((places[program], repr(view))) for program, view in calls]


@dataclass(frozen=True)
class Sandboxed:
    """Where a world's skills are checked and run: `admitted` and `act` in this sandbox."""

    sandbox: Sandbox = SANDBOX

    def act(self, calls: Sequence[Call]) -> list[str | None]:
        return act(calls, self.sandbox)

    def admitted(
        self, library: Mapping[str, str], program: str, tests: Sequence[str]
    ) -> tuple[dict[str, str], str | None]:
        return admitted(library, program, tests, self.sandbox)


def _said(
    programs: Sequence[str], asked: Sequence[tuple[int, str]], sandbox: Sandbox
) -> dict[tuple[int, str], str] | None:
    """What was said, by program and view; None where the process did not come to its end."""
    listed = ", ".join(f"({place}, {view})" for place, view in asked)
    source = f"programs = {list(programs)!r}\nasked = [{listed}]\n{_ACTING}"
    ran = replace(sandbox, output=max(sandbox.output, 64 * len(asked) + 1024)).run_now(source, errors=False)
    lines = ran.output.split("\n")
    if not ran.well or len(lines) != len(asked) + 1:
        return None
    found = zip(asked, lines[:-1], strict=True)
    return {one: line.removeprefix("said ") for one, line in found if line.startswith("said ")}


# A line per question: `said TEXT`, or `nothing`. What a program prints itself goes nowhere.
_ACTING = """
import os

report = os.fdopen(os.dup(1), "w")
os.dup2(0, 1)
made = []
for program in programs:
    space = {"__name__": "skill"}
    try:
        exec(compile(program, "<skill>", "exec", dont_inherit=True), space)
        made.append([value for value in space.values() if getattr(value, "__module__", None) == "skill"][-1])
    except BaseException:
        made.append(None)
for place, view in asked:
    try:
        text = made[place](view)
        plain = type(text) is str and len(text) <= 40 and text.isprintable()
        report.write("said " + text + "\\n" if plain else "nothing\\n")
    except BaseException:
        report.write("nothing\\n")
    report.flush()
"""

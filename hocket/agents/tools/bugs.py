"""Bugs made by changing one operator or constant of a function, as long as its tests notice, shown and held back."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hocket.agents.tools.routines import ROUTINES, Original, installed
from hocket.agents.tools.sandbox import ProgramResult, Sandbox
from hocket.core.errors import HocketError

_BINARY: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+", "-")),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("*", "%")),
    ast.Mod: ("%", ("//", "*")),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
}
_COMPARED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
}
_BOOLEAN: dict[type[ast.boolop], tuple[str, tuple[str, ...]]] = {ast.And: ("and", ("or",)), ast.Or: ("or", ("and",))}


@dataclass(frozen=True)
class SourceChange:
    """On a line (from 1), at a column (from 0), `old` becomes `new`."""

    line: int
    column: int
    old: str
    new: str

    def made(self, text: str) -> str:
        """The line with the change."""
        assert text.startswith(self.old, self.column)
        return text[: self.column] + self.new + text[self.column + len(self.old) :]


@dataclass(frozen=True)
class Bug:
    """A change to a routine that its tests notice: `call`, a shown one, gives `found` where it should give `wanted`."""

    original: Original
    change: SourceChange
    call: str
    wanted: str
    found: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The module with the bug."""
        place = self.change.line - 1
        lines = self.original.lines
        return (*lines[:place], self.change.made(lines[place]), *lines[place + 1 :])

    @property
    def mending(self) -> SourceChange:
        """What takes it back."""
        return SourceChange(self.change.line, self.change.column, self.change.new, self.change.old)


def changes(lines: Sequence[str], name: str) -> list[SourceChange]:
    """All changes that could be made to the function `name` of a module: to its operators and its small constants."""
    tree = ast.parse("\n".join(lines))
    node = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    candidates = [change for statement in node.body for part in ast.walk(statement) for change in _of(part, lines)]
    return sorted(set(candidates), key=lambda change: (change.line, change.column, change.new))


def _of(node: ast.AST, lines: Sequence[str]) -> Iterator[SourceChange]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            yield from _between(left, right, *_BINARY[type(op)], lines)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            yield from _between(left, right, *_COMPARED[type(op)], lines)
        case ast.BoolOp(op=op, values=[left, right, *_]):
            yield from _between(left, right, *_BOOLEAN[type(op)], lines)
        case ast.AugAssign(target=left, op=op, value=right) if type(op) in (ast.Add, ast.Sub):
            old, new = ("+=", "-=") if isinstance(op, ast.Add) else ("-=", "+=")
            yield from _between(left, right, old, (new,), lines)
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and 0 <= value < 1000:
            text = lines[node.lineno - 1]
            if text.isascii() and text.startswith(str(value), node.col_offset):
                for other in (value + 1, value - 1) if value else (1,):
                    yield SourceChange(node.lineno, node.col_offset, str(value), str(other))


def _between(
    left: ast.expr, right: ast.expr, old: str, news: Sequence[str], lines: Sequence[str]
) -> Iterator[SourceChange]:
    """Of the operator between two expressions of one line."""
    if left.end_lineno != right.lineno or left.end_col_offset is None or not lines[right.lineno - 1].isascii():
        return
    gap = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
    at = re.fullmatch(rf"[\s)]*({re.escape(old)})[\s(]*", gap)
    if at is not None:
        for new in news:
            yield SourceChange(right.lineno, left.end_col_offset + at.start(1), old, new)


# ---------------------------------------------------------------- which of them the tests notice

_TRY = """
import json, sys

def tried(lines, calls):
    left = [0]
    def trace(frame, event, argument):
        left[0] -= 1
        if left[0] < 0:
            raise TimeoutError
        return trace
    space, results = {"__name__": "tried"}, []
    try:
        exec(compile("\\n".join(lines), "tried", "exec", dont_inherit=True), space)
    except BaseException as error:
        return ["!" + type(error).__name__ for _ in calls]
    for call in calls:
        left[0] = 20_000
        sys.settrace(trace)
        try:
            result = repr(eval(call, space))
        except BaseException as error:
            result = "!" + type(error).__name__
        finally:
            sys.settrace(None)
        results.append(result[:100])
    return results

print(json.dumps([tried([*lines[:place - 1], text, *lines[place:]], calls) for place, text in changed]))
"""


def _tried(
    lines: Sequence[str], calls: Sequence[str], changed: Sequence[tuple[int, str]], sandbox: Sandbox
) -> ProgramResult:
    """A program's list of what the calls give, as text, for each line that is put in the place of another."""
    room, cpu = 128 * len(calls) * len(changed), sandbox.cpu + 0.1 * len(changed)
    sandbox = replace(sandbox, output=max(sandbox.output, room), cpu=cpu, seconds=sandbox.seconds + 2 * cpu)
    return sandbox.run_now(f"lines, calls, changed = {list(lines)!r}, {list(calls)!r}, {list(changed)!r}\n{_TRY}")


@lru_cache(maxsize=4096)
def gives(lines: tuple[str, ...], calls: tuple[str, ...], sandbox: Sandbox) -> tuple[str, ...]:
    """What calls of a module give, as text, `!` and the error where they raise; `!ended` where it came to nothing."""
    ran = _tried(lines, calls, [(1, lines[0])], sandbox)
    try:
        (results,) = json.loads(ran.output) if ran.well else ([],)
    except ValueError:
        results = []
    complete = (
        isinstance(results, list) and len(results) == len(calls) and all(isinstance(text, str) for text in results)
    )
    return tuple(results) if complete else ("!ended",) * len(calls)


@lru_cache(maxsize=64)
def bugs_of(original: Original, sandbox: Sandbox) -> tuple[Bug, ...]:
    """The bugs of a routine, each with the shortest shown call that gives something else; tried out in the sandbox.

    A test that is held back notices each of them too, so that none is taken away by a table of what is shown.

    Raises:
        HocketError: when the interpreter cannot run its own module there.
    """
    lines = original.lines
    several = changes(lines, original.routine.name)
    calls = [call for call, _ in original.all_tests]
    # The first is none: a module that does not give there what it gives here is no good.
    changed = [(1, lines[0]), *((change.line, change.made(lines[change.line - 1])) for change in several)]
    ran = _tried(lines, calls, changed, sandbox)
    if not ran.well:
        raise HocketError(f"{original.routine.file} cannot be run in the sandbox: {ran.output.strip()[-200:]}")
    same, *results = json.loads(ran.output)
    if same != [wanted for _, wanted in original.all_tests]:
        return ()
    bugs, shown = [], {call for call, _ in original.tests}
    for change, gave in zip(several, results, strict=True):
        tried = zip(original.all_tests, gave, strict=True)
        wrong = [(call, wanted, got) for (call, wanted), got in tried if got != wanted]
        visible = [case for case in wrong if case[0] in shown]
        if 0 < len(visible) < len(wrong):
            bugs.append(Bug(original, change, *min(visible, key=lambda case: len(case[0]))))
    return tuple(bugs)


@lru_cache(maxsize=4)
def all_bugs(longest: int, sandbox: Sandbox) -> tuple[Bug, ...]:
    """The bugs of all routines that are shown on at most `longest` characters, in an order that stays."""
    originals = [
        original
        for original in map(installed, ROUTINES)
        if original is not None and len(shown(original.lines, original)) <= longest
    ]
    return tuple(bug for original in originals for bug in bugs_of(original, sandbox))


def shown(lines: Sequence[str], original: Original) -> str:
    """The definition with the numbers of its lines, its docstring left out."""
    numbers = [n for n in range(original.first, original.last + 1) if n not in original.hidden]
    return "\n".join(f"{n} {lines[n - 1]}" for n in numbers if lines[n - 1].strip())

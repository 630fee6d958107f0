"""Tests of a solution, judged where the solution is not.

A test such as `assert sorted(f([3, 1])) == [1, 3]` is taken apart. The solution's process is given `f([3, 1])` alone
and reports what came of it, as plain data: a value, or an error by its classes. Another process, which never holds a
line of the solution, is given that data and the test, and decides whether it passes. So what is expected never comes
near the solution, and nothing that the solution changes (the harness, `assert`, `==` of what it returns, its exit) has
part in the verdict. A call that came to neither a value nor an error fails its test, whatever the test catches.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hocket.agents.tools.sandbox import ProgramResult, Sandbox
from hocket.agents.tools.unit_test_programs import JUDGE, SOLUTION
from hocket.core.errors import ConfigurationError

Test = str | Mapping[str, str]
"""Statements with an `assert`, or `{"input": .., "output": ..}` for a program that reads and prints."""

_SEEN = "hocket_seen"
_SHOWN = 80
_OUTCOMES = 1 << 20
"""Bytes that what came of all calls may take, which is no output of the solution's own."""


@dataclass(frozen=True)
class UnitTestVerdict:
    """Which tests passed, and in a line what went wrong first."""

    passed: tuple[bool, ...]
    reason: str | None = None

    @property
    def share(self) -> float:
        """Passed tests over all."""
        return sum(self.passed) / len(self.passed)


def examine(source: str, tests: Sequence[Test], setup: str, sandbox: Sandbox) -> UnitTestVerdict:
    """Runs a solution against tests and waits for the verdict.

    Args:
        source: the solution, a module for tests that assert and a program for those that print.
        tests: all of one kind.
        setup: what both the solution and the tests may use: imports, helpers, classes.
        sandbox: where both processes run, one after the other.

    Raises:
        ConfigurationError: for tests that cannot be judged apart from the solution.
    """
    if not tests:
        raise ConfigurationError("a solution needs at least one test; give metadata['tests']")
    printed = [test for test in tests if not isinstance(test, str)]
    if len(printed) == len(tests):
        return _printed(source, printed, setup, sandbox)
    if printed:
        raise ConfigurationError("tests of a solution either all assert or all have input and output; split them")
    return _asserted(source, [str(test) for test in tests], setup, sandbox)


# ---------------------------------------------------------------- tests that assert


@dataclass(frozen=True)
class ParsedTest:
    """A test taken apart.

    Attributes:
        calls: what the solution is to evaluate. roots: the name of the solution that each begins with.
        judged: the test with the results of the calls in their place.
    """

    calls: tuple[str, ...]
    roots: tuple[str, ...]
    judged: str


@lru_cache(maxsize=4096)
def take_apart(test: str, setup: str = "") -> ParsedTest:
    """Replaces every outermost call of the solution by what will have come of it.

    The solution's are the calls of plain names that neither Python nor `setup` knows, what is done with an object made
    on the spot (`Solver(3).run(4)`, `Solver(3).size`), and calls of what such a call returns (`adder(2)(3)`). In a test
    without any, calls of built-in names are the solution's, which has to define them: `assert sum(4) == 4`.

    Raises:
        ConfigurationError: when the test asserts nothing, calls no solution, or calls it with a variable.
    """
    try:
        tree, setup_names = ast.parse(test), _defined(ast.parse(setup))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"test {_short(test)} cannot be read: {error}; correct it") from error
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        raise ConfigurationError(f"test {_short(test)} asserts nothing; write assert CALL == VALUE")
    for known in (setup_names | frozenset(vars(builtins)), setup_names):
        taking = _Taking(known, _defined(tree), test)
        judged = ast.unparse(ast.fix_missing_locations(taking.visit(ast.parse(test))))
        if taking.calls:
            return ParsedTest(tuple(taking.calls), tuple(taking.roots), judged)
    raise ConfigurationError(f"test {_short(test)} calls nothing of the solution; write assert CALL == VALUE")


class _Taking(ast.NodeTransformer):
    """Takes calls out of a test. `known` are names that are not the solution's, `local` those of the test only."""

    def __init__(self, known: frozenset[str], local: frozenset[str], test: str) -> None:
        self.calls: list[str] = []
        self.roots: list[str] = []
        self._known, self._local, self._test = known, local, test

    def visit_Call(self, node: ast.Call) -> ast.AST:
        root = self._root(node)
        return self.generic_visit(node) if root is None else self._taken(node, root)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        root = self._root(node)
        return self.generic_visit(node) if root is None else self._taken(node, root)

    def _taken(self, node: ast.expr, root: str) -> ast.AST:
        """A call of the solution, by its place."""
        free = self._free(node)
        if free:
            raise ConfigurationError(
                f"test {_short(self._test)} calls the solution with the variable {free!r}, which is known only to the "
                "test; write its value"
            )
        self.calls.append(ast.unparse(node))
        self.roots.append(root)
        place = ast.Constant(len(self.calls) - 1)
        return ast.copy_location(ast.Call(ast.Name(_SEEN, ast.Load()), [place], []), node)

    def _root(self, node: ast.expr) -> str | None:
        """The solution's name that an expression begins with; None where it is none of the solution's."""
        match node:
            case ast.Call(func=ast.Name(id=name)):
                return None if name in self._known | self._local else name
            case ast.Call(func=ast.Call() as made):
                return self._root(made)
            case ast.Call(func=ast.Attribute(value=ast.Call() as made)) | ast.Attribute(value=ast.Call() as made):
                root = self._root(made)
                return root if root is not None and root[:1].isupper() else None
        return None

    def _free(self, call: ast.expr) -> str | None:
        """A name in the call that only the test could know."""
        names = [node for node in ast.walk(call) if isinstance(node, ast.Name)]
        called = {node.func for node in ast.walk(call) if isinstance(node, ast.Call)}
        known_names = (
            self._known
            | frozenset(vars(builtins))
            | _defined(call)
            | {name.id for name in names if name in called and name.id not in self._local}
        )
        return next((name.id for name in names if name.id not in known_names), None)


def _defined(tree: ast.AST) -> frozenset[str]:
    """Names that a piece of code gives a meaning to."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.arg(arg=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
    return frozenset(names)


def _short(test: str) -> str:
    return repr(test if len(test) <= _SHOWN else f"{test[: _SHOWN - 3]}...")


def _asserted(source: str, tests: Sequence[str], setup: str, sandbox: Sandbox) -> UnitTestVerdict:
    taken = [take_apart(test, setup) for test in tests]
    calls = [call for parsed in taken for call in parsed.calls]
    roots = [root for parsed in taken for root in parsed.roots]
    roomy = replace(sandbox, output=max(sandbox.output, _OUTCOMES))
    answers = roomy.run_now(_program(SOLUTION, source=source, setup=setup, calls=calls, roots=roots))
    judged = [parsed.judged for parsed in taken]
    starts = [sum(len(parsed.calls) for parsed in taken[:place]) for place in range(len(taken))]
    judging = _program(JUDGE, setup=setup, tests=judged, starts=starts, outcomes=answers.output.split("\n"))
    verdict = sandbox.run_now(judging)
    try:
        reasons = json.loads(verdict.output.splitlines()[-1]) if verdict.well else None
    except (ValueError, IndexError):
        reasons = None
    if reasons is None:
        return UnitTestVerdict((False,) * len(tests), f"the tests did not finish: {_last(verdict)}")
    passed = tuple(reason is None for reason in reasons)
    wrong = next((place for place, reason in enumerate(reasons) if reason is not None), None)
    return UnitTestVerdict(
        passed, None if wrong is None else f"{_short(tests[wrong])}: {_ended(answers) or reasons[wrong]}"
    )


def _program(template: str, **values: object) -> str:
    """A program that begins with values written out, and goes on as the template."""
    return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + template


def _ended(finished: ProgramResult) -> str | None:
    return None if finished.ending == "exit" else f"the solution was stopped ({finished.ending})"


def _last(finished: ProgramResult) -> str:
    lines = finished.output.strip().splitlines()
    return finished.ending if finished.ending != "exit" or not lines else lines[-1][:200]


# ---------------------------------------------------------------- tests that print


def _printed(source: str, tests: Sequence[Mapping[str, str]], setup: str, sandbox: Sandbox) -> UnitTestVerdict:
    passed, reason = [], None
    for place, test in enumerate(tests):
        if not isinstance(test.get("input"), str) or not isinstance(test.get("output"), str):
            raise ConfigurationError(f"test {place} of a solution must have text as input and output")
        ran = sandbox.run_now(_after(setup, source) if setup else source, input=test["input"], errors=False)
        passed.append(ran.well and _lines(ran.output) == _lines(test["output"]))
        if not passed[-1] and reason is None:
            why = _ended(ran) or ("it printed something else" if ran.well else f"it ended with code {ran.code}")
            reason = f"input {_short(test['input'])}: {why}"
    return UnitTestVerdict(tuple(passed), reason)


def _after(setup: str, source: str) -> str:
    """A program that runs after its setup, each compiled by itself, since `from __future__` stands at a beginning."""
    return "\n".join(
        f"exec(compile({text!r}, {name!r}, 'exec', dont_inherit=True))"
        for name, text in (("<setup>", setup), ("<solution>", source))
    )


def _lines(text: str) -> list[str]:
    """Lines without blanks at their ends, and without empty ones at the end. A line ends by `\\n` or `\\r\\n` alone."""
    lines = [line.rstrip(" \t") for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines

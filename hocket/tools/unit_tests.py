"""Tests of a solution, judged where the solution is not.

A test such as `assert sorted(f([3, 1])) == [1, 3]` is taken apart. The solution's process is given `f([3, 1])` alone
and says what came of it, as plain data. Another process, which never holds a line of the solution, is given that data
and the test, and says whether it passes. So what is expected never comes near the solution, and nothing that the
solution changes (the harness, `assert`, `==` of what it returns, its exit) takes part in the verdict.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hocket.core.errors import ConfigurationError
from hocket.tools.sandbox import Finished, Sandbox

Test = str | Mapping[str, str]
"""Statements with an `assert`, or `{"input": .., "output": ..}` for a program that reads and prints."""

_SEEN = "hocket_seen"
_SHOWN = 80


@dataclass(frozen=True)
class Verdict:
    """Which tests passed, and in a line what went wrong first."""

    passed: tuple[bool, ...]
    reason: str | None = None

    @property
    def share(self) -> float:
        """Passed tests over all."""
        return sum(self.passed) / len(self.passed)


def examine(source: str, tests: Sequence[Test], setup: str, sandbox: Sandbox) -> Verdict:
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
class Taken:
    """A test taken apart: the calls that the solution is to make, and the test with their results in their place."""

    calls: tuple[str, ...]
    judged: str


@lru_cache(maxsize=4096)
def take_apart(test: str, setup: str = "") -> Taken:
    """Replaces every outermost call of the solution by what will have come of it.

    The solution's are the calls of plain names that neither Python nor `setup` knows, and of methods of an object made
    on the spot (`Solver(3).run(4)`).

    Raises:
        ConfigurationError: when the test asserts nothing, calls no solution, or calls it with a variable.
    """
    try:
        tree, known = ast.parse(test), frozenset(vars(builtins)) | _defined(ast.parse(setup))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"test {_short(test)} cannot be read: {error}; correct it") from error
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        raise ConfigurationError(f"test {_short(test)} asserts nothing; write assert CALL == VALUE")
    taking = _Taking(known, _defined(tree), test)
    judged = ast.unparse(ast.fix_missing_locations(taking.visit(tree)))
    if not taking.calls:
        raise ConfigurationError(f"test {_short(test)} calls nothing of the solution; write assert CALL == VALUE")
    return Taken(tuple(taking.calls), judged)


class _Taking(ast.NodeTransformer):
    """Takes calls out of a test. `known` stands for the same everywhere, `local` for something in the test only."""

    def __init__(self, known: frozenset[str], local: frozenset[str], test: str) -> None:
        self.calls: list[str] = []
        self._known, self._local, self._test = known, local, test

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not self._of_solution(node.func):
            return self.generic_visit(node)
        free = self._free(node)
        if free:
            raise ConfigurationError(
                f"test {_short(self._test)} calls the solution with the variable {free!r}, which is known only to the "
                "test; write its value"
            )
        self.calls.append(ast.unparse(node))
        place = ast.Constant(len(self.calls) - 1)
        return ast.copy_location(ast.Call(ast.Name(_SEEN, ast.Load()), [place], []), node)

    def _of_solution(self, function: ast.expr) -> bool:
        match function:
            case ast.Name(id=name):
                return name not in self._known | self._local
            case ast.Attribute(value=ast.Call(func=ast.Name(id=name))):
                return name not in self._known | self._local and name[:1].isupper()
        return False

    def _free(self, call: ast.Call) -> str | None:
        """A name in the call that only the test could know."""
        names = [node for node in ast.walk(call) if isinstance(node, ast.Name)]
        called = {node.func for node in ast.walk(call) if isinstance(node, ast.Call)}
        own = (
            self._known | _defined(call) | {name.id for name in names if name in called and name.id not in self._local}
        )
        return next((name.id for name in names if name.id not in own), None)


def _defined(tree: ast.AST) -> frozenset[str]:
    """Names that a piece of code gives a meaning to."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.arg(arg=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
    return frozenset(found)


def _short(test: str) -> str:
    return repr(test if len(test) <= _SHOWN else f"{test[: _SHOWN - 3]}...")


def _asserted(source: str, tests: Sequence[str], setup: str, sandbox: Sandbox) -> Verdict:
    taken = [take_apart(test, setup) for test in tests]
    calls = [call for one in taken for call in one.calls]
    seen = sandbox.run_now(_program(_SOLUTION, source=source, setup=setup, calls=calls))
    judged = [one.judged for one in taken]
    starts = [sum(len(one.calls) for one in taken[:place]) for place in range(len(taken))]
    said = _program(_JUDGE, setup=setup, tests=judged, starts=starts, seen=seen.output.split("\n"))
    verdict = sandbox.run_now(said)
    try:
        told = json.loads(verdict.output.splitlines()[-1]) if verdict.well else None
    except (ValueError, IndexError):
        told = None
    if told is None:
        return Verdict((False,) * len(tests), f"the tests did not finish: {_last(verdict)}")
    passed = tuple(reason is None for reason in told)
    wrong = next((place for place, reason in enumerate(told) if reason is not None), None)
    return Verdict(passed, None if wrong is None else f"{_short(tests[wrong])}: {_ended(seen) or told[wrong]}")


def _program(template: str, **values: object) -> str:
    """A program that begins with values written out, and goes on as the template."""
    return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + template


def _ended(finished: Finished) -> str | None:
    return None if finished.ending == "exit" else f"the solution was stopped ({finished.ending})"


def _last(finished: Finished) -> str:
    lines = finished.output.strip().splitlines()
    return finished.ending if finished.ending != "exit" or not lines else lines[-1][:200]


# The solution's process: a line per call, `[number, what came of it]`. Whatever else it says goes nowhere; a solution
# that writes such lines itself has to know the right values, and two different ones for a call count for nothing.
_SOLUTION = """
import json, os

def plain(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return ["int", hex(value)]
    if isinstance(value, float):
        return ["float", float.hex(value)]
    if isinstance(value, str):
        return ["str", str.__str__(value)]
    if isinstance(value, bytes):
        return ["bytes", bytes.hex(value)]
    if isinstance(value, dict):
        return ["dict", [[plain(key), plain(item)] for key, item in dict.items(value)]]
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return [kind.__name__, [plain(item) for item in kind.__iter__(value)]]
    raise TypeError(type(value).__name__ + " is no plain data")

report = os.fdopen(os.dup(1), "w")
os.dup2(0, 1)
os.dup2(0, 2)
space = {"__name__": "solution"}
failed = None
try:
    exec(compile(setup, "<setup>", "exec", dont_inherit=True), space)
    exec(compile(source, "<solution>", "exec", dont_inherit=True), space)
except BaseException as error:
    failed = type(error).__name__
for number, call in enumerate(calls):
    came = ["error", failed]
    try:
        if failed is None:
            value = eval(call, space)
            came = ["odd", type(value).__name__]
            came = ["value", plain(value)]
    except BaseException as error:
        if came[0] != "odd":
            came = ["error", type(error).__name__]
    report.write(json.dumps([number, came]) + "\\n")
    report.flush()
"""

# The judge's process: what came of each call, as data, and then every test; a reason for each that fails.
_JUDGE = """
import builtins, json

def data(told):
    if told is None or isinstance(told, bool):
        return told
    kind, inside = told
    if kind == "int":
        return int(inside, 16)
    if kind == "float":
        return float.fromhex(inside)
    if kind == "str" and isinstance(inside, str):
        return inside
    if kind == "bytes":
        return bytes.fromhex(inside)
    if kind == "dict":
        return {data(key): data(item) for key, item in inside}
    made = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
    return made([data(item) for item in inside])

came = {}
for line in seen:
    try:
        number, told = json.loads(line)
        came.setdefault(number, []).append(told)
    except Exception:
        continue

def asked(start):
    def hocket_seen(place):
        told = came.get(start + place, [])
        if len(told) != 1:
            raise RuntimeError("the solution gave no answer")
        kind, inside = told[0]
        if kind == "value":
            return data(inside)
        if kind == "odd":
            raise RuntimeError("the solution gave a " + str(inside)[:40] + ", which is no plain data")
        error = getattr(builtins, str(inside), None)
        fits = isinstance(error, type) and issubclass(error, Exception) and not issubclass(error, AssertionError)
        raise (error if fits else RuntimeError)("raised by the solution")
    return hocket_seen

reasons = []
for test, start in zip(tests, starts):
    space = {"hocket_seen": asked(start)}
    try:
        exec(compile(setup, "<setup>", "exec", dont_inherit=True), space)
        exec(compile(test, "<test>", "exec", dont_inherit=True), space)
        reasons.append(None)
    except AssertionError:
        reasons.append("not so")
    except BaseException as error:
        reasons.append((type(error).__name__ + ": " + str(error))[:100])
print()
print(json.dumps(reasons))
"""


# ---------------------------------------------------------------- tests that print


def _printed(source: str, tests: Sequence[Mapping[str, str]], setup: str, sandbox: Sandbox) -> Verdict:
    passed, reason = [], None
    for place, test in enumerate(tests):
        if not isinstance(test.get("input"), str) or not isinstance(test.get("output"), str):
            raise ConfigurationError(f"test {place} of a solution must have text as input and output")
        ran = sandbox.run_now(f"{setup}\n{source}" if setup else source, input=test["input"], errors=False)
        passed.append(ran.well and _lines(ran.output) == _lines(test["output"]))
        if not passed[-1] and reason is None:
            why = _ended(ran) or ("it printed something else" if ran.well else f"it ended with code {ran.code}")
            reason = f"input {_short(test['input'])}: {why}"
    return Verdict(tuple(passed), reason)


def _lines(text: str) -> list[str]:
    """Lines without the space at their ends, and without empty ones at the end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip().split("\n")

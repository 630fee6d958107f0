"""A language of small functions with loops, whose operations are counted and which can be timed without being tricked.

A program is one function `f(n)` of a whole number: assignments to names, `for NAME in range(..)`, `+`, `-`, `*`, `//`
and `return`. Nothing lasts from one call to the next, no clock or other name of the interpreter can be reached, a loop
cannot be left out by a condition, and what is returned is a number and no promise of one. So what such a program is
worth can be measured by running it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hocket.agents.tools.sandbox import Sandbox

LONGEST = 500
"""Characters of a program; a longer one is none."""

LARGEST = 10**30
"""A number beyond it stops a program."""

_ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
}


class Stopped(Exception):
    """A program that came to no value: a name without one, a division by 0, no return, too many operations."""


@dataclass(frozen=True)
class Function:
    """A program: its text, and its body."""

    source: str
    body: tuple[ast.stmt, ...]


def read(text: str) -> Function | None:
    """The program that a text is; None where it is none of this language."""
    if len(text) > LONGEST:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    only = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(only, ast.FunctionDef) or not _headed(only) or not all(map(_statement, only.body)):
        return None
    return Function(text, tuple(only.body))


def _headed(function: ast.FunctionDef) -> bool:
    """Whether it is `def f(n):` and no more."""
    plain = ast.parse("def f(n): pass").body[0]
    assert isinstance(plain, ast.FunctionDef)
    bare = not function.decorator_list and function.returns is None
    return function.name == "f" and bare and ast.dump(function.args) == ast.dump(plain.args)


def _statement(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return len(node.targets) == 1 and _name(node.targets[0]) and _number(node.value)
    if isinstance(node, ast.AugAssign):
        return _name(node.target) and type(node.op) in _ARITHMETIC and _number(node.value)
    if isinstance(node, ast.Return):
        return node.value is not None and _number(node.value)
    return isinstance(node, ast.For) and _loop(node) and all(map(_statement, node.body))


def _loop(node: ast.For) -> bool:
    call = node.iter
    if node.orelse or not _name(node.target) or not isinstance(call, ast.Call) or call.keywords:
        return False
    ranged = isinstance(call.func, ast.Name) and call.func.id == "range"
    return ranged and 1 <= len(call.args) <= 2 and all(map(_number, call.args))


def _name(node: ast.expr) -> bool:
    """Whether it is a name that stands for a number; the function's own and that of loops do not."""
    return isinstance(node, ast.Name) and node.id not in ("f", "range")


def _number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _number(node.operand)
    if isinstance(node, ast.BinOp):
        return type(node.op) in _ARITHMETIC and _number(node.left) and _number(node.right)
    return _name(node)


# ---------------------------------------------------------------- counted


def run(function: Function, n: int, most: int | None = None) -> tuple[int, int]:
    """What a program returns for `n`, and its operations: 1 for an arithmetic one, a turn of a loop and the return.

    Args:
        most: operations after which it is stopped; None is no limit.

    Raises:
        Stopped: when it comes to no value.
    """
    machine = _Machine({"n": n}, most)
    found = machine.block(function.body)
    if found is None:
        raise Stopped
    machine.spend()
    return found, machine.spent


class _Machine:
    """What a call holds, and what it has spent."""

    def __init__(self, held: dict[str, int], most: int | None) -> None:
        self.held, self.most, self.spent = held, most, 0

    def spend(self) -> None:
        """One more operation."""
        self.spent += 1
        if self.most is not None and self.spent > self.most:
            raise Stopped

    def block(self, body: Sequence[ast.stmt]) -> int | None:
        """What a block returns; None where it does not."""
        for node in body:
            if isinstance(node, ast.Return):
                assert node.value is not None
                return self.number(node.value)
            if isinstance(node, ast.For):
                found = self.loop(node)
                if found is not None:
                    return found
            elif isinstance(node, ast.AugAssign):
                self.put(node.target, self.made(node.op, self.number(node.target), self.number(node.value)))
            else:
                assert isinstance(node, ast.Assign)
                self.put(node.targets[0], self.number(node.value))
        return None

    def loop(self, node: ast.For) -> int | None:
        """What a loop returns from within; None where it comes to its end."""
        assert isinstance(node.iter, ast.Call)
        for place in range(*(self.number(one) for one in node.iter.args)):
            self.spend()
            self.put(node.target, place)
            found = self.block(node.body)
            if found is not None:
                return found
        return None

    def put(self, target: ast.expr, value: int) -> None:
        """A name gets a value."""
        assert isinstance(target, ast.Name)
        self.held[target.id] = value

    def number(self, node: ast.expr) -> int:
        """The value of an expression."""
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int)
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self.held:
                raise Stopped
            return self.held[node.id]
        if isinstance(node, ast.UnaryOp):
            return self.made(ast.Sub(), 0, self.number(node.operand))
        assert isinstance(node, ast.BinOp)
        return self.made(node.op, self.number(node.left), self.number(node.right))

    def made(self, op: ast.operator, left: int, right: int) -> int:
        """An arithmetic operation."""
        self.spend()
        if isinstance(op, ast.FloorDiv) and right == 0:
            raise Stopped
        found: int = _ARITHMETIC[type(op)](left, right)
        if abs(found) > LARGEST:
            raise Stopped
        return found


# ---------------------------------------------------------------- timed

_TIMED = """
import json
from time import perf_counter_ns

def timed(sources, given, orders, repeats):
    made = []
    for source in sources:
        space = {"__builtins__": {"range": range}}
        exec(source, space)
        made.append(space["f"])
    found = []
    for order in orders:
        took = [0, 0]
        for which in order:
            f = made[which]
            begun = perf_counter_ns()
            for _ in range(repeats):
                for n in given:
                    f(n)
            took[which] = perf_counter_ns() - begun
        found.append(took)
    return found

print(json.dumps(timed(SOURCES, GIVEN, ORDERS, REPEATS)))
"""


def seconds(
    reference: Function, program: Function, given: Sequence[int], orders: Sequence[bool], sandbox: Sandbox
) -> list[float] | None:
    """The reference's time over the program's, once for each of `orders`; None where it did not come to its end.

    Both run in one process of the sandbox, one after the other: the reference first where the order says so. The clock
    is read by what runs them, of which a program of this language sees nothing.
    """
    order = [[0, 1] if first else [1, 0] for first in orders]
    head = f"SOURCES, GIVEN, ORDERS = {[reference.source, program.source]!r}, {list(given)!r}, {order!r}\n"
    finished = sandbox.run_now(f"{head}REPEATS = 20\n{_TIMED}")
    if not finished.well:
        return None
    return [one / max(other, 1) for one, other in json.loads(finished.output)]

"""Formulas as answers: `g*p/n` is `p*g/n`, and `2**(r/b)-1` is `exp(r/b*log(2))-1`.

A formula has numbers, letters, `pi`, the operations `+ - * / **` (`^` is `**`) and the functions `FUNCTIONS`. Letters
stand for positive numbers. Nothing is executed but this grammar. Two formulas are the same if they agree at three
points, which nearly every wrong one fails, and sympy then finds that their difference is zero.
"""

from __future__ import annotations

import ast
import functools
import importlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from hocket.core.bounded_calls import OverTime, bounded

FUNCTIONS = ("exp", "log", "log2", "sqrt")
BLANK = "_"
"""Where in a formula a part is left out."""

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_LETTER = re.compile(r"\b[A-Za-z]\b")
_LONGEST = 200
_POINTS = (0.37, 0.83, 1.61)
"""A letter's value at each point, times a further step for each letter."""
_CLOSE = 1e-9


def tree(text: str) -> ast.expr:
    """The syntax of a formula; ValueError if it is none, or longer than 200 characters."""
    if len(text) > _LONGEST:
        raise ValueError("too long")
    try:
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("no formula") from error


def compute(node: ast.expr, names: Mapping[str, Any], functions: Mapping[str, Any], number: Callable[..., Any]) -> Any:
    """The value of a formula, in the arithmetic of `names`, `functions` and `number`; ValueError if it has none."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return number(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -compute(operand, names, functions, number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            both = (compute(side, names, functions, number) for side in (left, right))
            return _OPERATIONS[type(op)](*both)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in functions:
            return functions[name](compute(argument, names, functions, number))
    raise ValueError("no formula")


def value(node: ast.expr, point: float) -> float:
    """A formula's value where the first letter of the alphabet is `point` and each further one a little more."""
    names = {chr(97 + place): point * (1 + 0.31 * place) for place in range(26)} | {"pi": math.pi}
    try:
        result = compute(node, names, {name: getattr(math, name) for name in FUNCTIONS}, float)
    except (ArithmeticError, TypeError, RecursionError) as error:
        raise ValueError("undefined") from error
    if isinstance(result, complex) or not math.isfinite(result):
        raise ValueError("undefined")
    return float(result)


def agree(given: ast.expr, known: ast.expr) -> bool:
    """Whether two formulas have equal values at three points; not where one has none."""
    try:
        pairs = [(value(given, point), value(known, point)) for point in _POINTS]
    except ValueError:
        return False
    return all(math.isclose(left, right, rel_tol=_CLOSE, abs_tol=_CLOSE) for left, right in pairs)


def same(given: str, known: str, frame: str = BLANK) -> bool:
    """Whether two texts make the same formula, whatever its form; a text that is no formula is the same as none.

    Args:
        frame: a formula in whose blank both are put.
    """
    try:
        tree(given)  # Alone, lest its brackets close those around it.
    except ValueError:
        return False
    ours, theirs = (frame.replace(BLANK, f"({text})").replace(" ", "") for text in (given, known))
    letters = dict.fromkeys(_LETTER.findall(theirs) + _LETTER.findall(ours))
    if len(letters) > 26:
        return False
    # By order of appearance, so that one comparison serves all names that quantities may have.
    named = {letter: chr(97 + place) for place, letter in enumerate(letters)}
    return _same(*(_LETTER.sub(lambda found: named[found[0]], text) for text in (ours, theirs)))


@functools.lru_cache(maxsize=8192)
def _same(given: str, known: str) -> bool:
    if given == known:
        return True
    try:
        if not agree(tree(given), tree(known)):
            return False
        return bool(bounded(vanishes, given, known))
    except (ValueError, OverTime, RuntimeError):
        return False


def vanishes(given: str, known: str) -> bool:
    """Whether sympy finds that the difference of two formulas is zero for all positive letters."""
    sympy: Any = importlib.import_module("sympy")  # Slow to import, and installed with torch.
    names = {chr(97 + place): sympy.Symbol(chr(97 + place), positive=True) for place in range(26)} | {"pi": sympy.pi}
    functions = {name: getattr(sympy, name) for name in FUNCTIONS if name != "log2"}
    functions["log2"] = lambda argument: sympy.log(argument) / sympy.log(2)

    def number(constant: float) -> Any:
        return sympy.Rational(str(constant))

    left, right = (compute(tree(text), names, functions, number) for text in (given, known))
    return bool(sympy.simplify(sympy.expand_log(left - right)) == 0 or (left - right).equals(0))

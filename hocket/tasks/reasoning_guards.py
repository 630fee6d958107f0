"""What keeps reasoning-gym's datasets repeatable and safe. Facts are those of version 0.1.25.

A few datasets draw from global generators, depend on the order of a set of strings (which differs from process to
process), index lists as long as their nominal size, or print. A few verifiers hand the model's answer to `eval`.
"""

from __future__ import annotations

import ast
import importlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

REFUSED = {
    "codeio": "it runs programs that draw from Python's global generator, so its problems cannot be repeated",
    "composite": "it mixes other datasets, which no setting can name; train on them one by one",
}
"""Datasets that are no tasks, and why."""

LITERAL_ANSWERS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Their verifiers evaluate the answer, which should be a Python literal."""

EXPRESSION_ANSWERS = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""Their verifiers let sympy evaluate the answer, which should be a formula; see `is_formula`."""


def prepare(name: str, dataset: Any) -> None:
    """Makes a dataset repeatable, open to any index, and its verifier safe. Changes `dataset` and its module."""
    if name in LITERAL_ANSWERS:
        vars(sys.modules[type(dataset).__module__])["eval"] = ast.literal_eval
    if name in PREPARATIONS:
        PREPARATIONS[name](dataset)


def _bf(dataset: Any) -> None:
    optimiser = importlib.import_module("reasoning_gym.code.contrib.bfit.Compiler.Optimizer")
    vars(optimiser)["print"] = lambda *args, **settings: None  # it writes dots to stdout


def _pool_matrix(dataset: Any) -> None:
    vars(sys.modules[type(dataset).__module__])["np"] = _PrivateNumpy()


def _list_functions(dataset: Any) -> None:
    generators: Any = importlib.import_module("reasoning_gym.induction.list_functions.generators")
    generators.random = private = random.Random(0)
    draw = type(dataset).__getitem__
    dataset.task_indices = _Cyclic(dataset.task_indices)

    def item(index: int) -> Any:
        private.seed(index)
        return draw(dataset, index)

    dataset.hocket_item = item


def _gsm_symbolic(dataset: Any) -> None:
    dataset.task_indices = _Cyclic(dataset.task_indices)


def _acre(dataset: Any) -> None:
    dataset.questions = _Cyclic(dataset.questions)


def _word_ladder(dataset: Any) -> None:
    draw = type(dataset).__getitem__
    for graph in dataset.word_graphs.values():
        graph.update({word: sorted(neighbours) for word, neighbours in graph.items()})

    def item(index: int) -> Any:
        dataset.size = index + 1  # it shrinks after a failure
        return draw(dataset, index)

    dataset.hocket_item = item


def _knight_swap(dataset: Any) -> None:
    vars(sys.modules[type(dataset).__module__])["frozenset"] = _Sorted


def _letters(dataset: Any) -> None:
    dataset.letters = _Sorted(dataset.letters)


def _polynomial_multiplication(dataset: Any) -> None:
    draw = dataset._get_monomials
    dataset._get_monomials = lambda rng: sorted(draw(rng), key=str)


PREPARATIONS: dict[str, Callable[[Any], None]] = {
    "acre": _acre,
    "bf": _bf,
    "gsm_symbolic": _gsm_symbolic,
    "isomorphic_strings": _letters,
    "knight_swap": _knight_swap,
    "list_functions": _list_functions,
    "polynomial_multiplication": _polynomial_multiplication,
    "pool_matrix": _pool_matrix,
    "ransom_note": _letters,
    "word_ladder": _word_ladder,
}


def item(dataset: Any, index: int) -> dict[str, Any]:
    """Problem `index` of a prepared dataset."""
    draw = getattr(dataset, "hocket_item", dataset.__getitem__)
    return dict(draw(index))


class _PrivateNumpy:
    """NumPy with a generator of its own in place of the global one."""

    def __init__(self) -> None:
        self.random = np.random.RandomState(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class _Cyclic(list[Any]):
    """A list whose indices wrap around."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index % len(self))


class _Sorted(frozenset[str]):
    """A set that is walked in sorted order."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))

    def __sub__(self, other: Any) -> _Sorted:
        return _Sorted(super().__sub__(other))


# ---------------------------------------------------------------- formulas

_TRIGONOMETRIC = {"sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh"}
FUNCTIONS = frozenset({*_TRIGONOMETRIC, "exp", "log", "ln", "sqrt", "Abs"})
_LONGEST_FORMULA = 500
_MOST_BITS = 20_000


def is_formula(text: str) -> bool:
    """Whether `text` is a formula of numbers, one-letter symbols and elementary functions that is cheap to evaluate.

    Powers count by the digits they may produce, so that `9**9**9**9` is none.
    """
    if len(text) > _LONGEST_FORMULA:
        return False
    try:
        return _bits(ast.parse(text.strip(), mode="eval").body) <= _MOST_BITS
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _bits(node: ast.expr) -> int:
    """An upper bound on the bits of a formula's value, symbols counting as small; ValueError if it is no formula."""
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("no formula")
        case ast.Constant(value=int(number)):
            return max(1, number.bit_length())
        case ast.Constant(value=float()):
            return 64
        case ast.Name(id=name) if len(name) == 1 or name == "pi":
            return 1
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _bits(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return max(_bits(left), _bits(right)) + 1
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return _bits(left) + _bits(right)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _small(_bits(left) * _largest(right))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return _bits(argument)
    raise ValueError("no formula")


def _largest(exponent: ast.expr) -> int:
    """An upper bound on the size of an exponent."""
    match exponent:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return _small(max(1, number))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _largest(operand)
    bits = _bits(exponent)
    return _small(2**bits if bits < 32 else _MOST_BITS + 1)


def _small(bits: int) -> int:
    if bits > _MOST_BITS:
        raise ValueError("too large")
    return bits

"""What keeps reasoning-gym's datasets repeatable and safe. Facts are those of version 0.1.25.

A few datasets draw from global generators, depend on the order of a set of strings (which differs from process to
process), index lists as long as their nominal size, or print. A few verifiers hand the model's answer to `eval`.
"""

from __future__ import annotations

import ast
import importlib
import math
import random
import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from hocket.core.bounded_calls import OverTime, bounded
from hocket.core.numerals import last_number, number

REFUSED = {
    "codeio": "it runs programs that draw from Python's global generator, so its problems cannot be repeated",
    "composite": "it mixes other datasets, which no setting can name; train on them one by one",
}
"""Datasets that are no tasks, and why."""

LITERAL_ANSWERS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Their verifiers evaluate the answer, which should be a Python literal."""

FORMULA_ANSWERS = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""Their verifiers let sympy evaluate what should be a formula (`is_formula`), so they run in a process apart."""

NUMBER_ANSWERS = frozenset(
    {
        "advanced_geometry",
        "coin_flip",
        "complex_arithmetic",
        "decimal_arithmetic",
        "decimal_chain_sum",
        "dice",
        "number_format",
        "polynomial_equations",
        "power_function",
        "rectangle_count",
    }
)
"""Their verifiers compute with the number an answer spells, be it NaN, infinite or of a million digits."""

PARTIAL = {
    "acre": (0.5, "any text in which the letters of the right answer stand, as `None` for on"),
    "knights_knaves": (0.65, "the form of an answer, copied from the question"),
    "rotate_matrix": (0.6, "the question's matrix, where the right one stands in it"),
    "string_manipulation": (0.5, "the question's last line, where the right answer stands in it"),
    "syllogism": (0.5, "any text in which the letters of the right answer stand, as `None` for No"),
}
"""Datasets that pay much for what says nothing: how much at most, and for what. docs/reasoning-gym.md has all."""


def score(name: str, dataset: Any, answer: str, entry: dict[str, Any]) -> float:
    """The dataset's own score of an answer, which is 0 where the verifier would be misled or never end.

    Raises:
        Exception: whatever the dataset's verifier does.
    """
    if name in FORMULA_ANSWERS:
        if not is_formula(answer, arithmetic=name in ("countdown", "puzzle24")):
            return 0.0
        if name == "puzzle24" and sorted(re.findall(r"\d+", answer)) != sorted(map(str, entry["metadata"]["numbers"])):
            return 0.0  # the verifier would take any four numbers that make 24
        try:
            return float(bounded(_scored, type(dataset), dataset.config, answer, entry))
        except OverTime:
            return 0.0
    if name in NUMBER_ANSWERS and (_NOT_FINITE.search(answer) or _LONG_EXPONENT.search(answer)):
        return 0.0
    if name in MISLEADING and MISLEADING[name](answer):
        return 0.0
    if name in OWN_SCORES:
        return OWN_SCORES[name](answer, entry)
    value = float(dataset.score_answer(answer, entry))
    if name in WHOLE_ANSWERS and value >= WHOLE_ANSWERS[name]:
        return value if _words(answer) == _words(str(entry["answer"])) else WHOLE_ANSWERS[name]
    return value


_NOT_FINITE = re.compile(r"nan|inf", re.IGNORECASE)


def _scored(kind: Any, config: Any, answer: str, entry: dict[str, Any]) -> float:
    """A verifier's score, in the process apart. It needs no more of its dataset than the configuration."""
    import warnings

    warnings.simplefilter("ignore")
    if "integrand" in entry["metadata"] and _refuted(answer, **entry["metadata"]):
        return 0.0
    return float(kind.score_answer(SimpleNamespace(config=config), answer, entry))


def _refuted(answer: str, *, integrand: str, variable: str, **others: Any) -> bool:
    """Whether an antiderivative's slope is another than the integrand at every point looked at.

    Then their difference is not 0, which the verifier's simplification takes seconds to leave open.
    """
    sympy: Any = importlib.import_module("sympy")
    symbol = sympy.Symbol(variable)
    slope = sympy.diff(sympy.parse_expr(answer, local_dict={variable: symbol, "C": sympy.Symbol("C")}), symbol)
    apart = slope - sympy.parse_expr(integrand, local_dict={variable: symbol})
    for point in (sympy.Rational(1, 7), sympy.Rational(-3, 5), sympy.Rational(9, 4)):
        gap, size = (expression.subs(symbol, point).evalf(30) for expression in (apart, slope))
        if not (gap.is_number and size.is_number and abs(gap) > 1e-9 * (1 + abs(size))):
            return False
    return True


def _words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip().casefold())


def _halting(answer: str, entry: dict[str, Any]) -> float:
    """The verifier takes every text for true."""
    return float(_words(answer) == _words(str(entry["answer"])))


def _gsm_symbolic_score(answer: str, entry: dict[str, Any]) -> float:
    """The verifier takes the first digits of any text: 5 of -5, 1 of 1,000, the first of a list."""
    answered = number(answer)
    if answered is None and len(re.findall(r"\d[\d.,]*", answer)) == 1 and not re.search(r"\bnot\b|n['’]t\b", answer):
        answered = number(last_number(answer) or "")
    return float(answered is not None and answered == number(str(entry["answer"])))


OWN_SCORES: dict[str, Callable[[str, dict[str, Any]], float]] = {
    "game_of_life_halting": _halting,
    "gsm_symbolic": _gsm_symbolic_score,
}
"""Scores in place of a verifier that pays what is wrong."""

MISLEADING: dict[str, Callable[[str], bool]] = {
    "fraction_simplification": lambda answer: number(answer) is None,  # it looks at how a text begins
    "rubiks_cube": lambda answer: re.search(r"\d\d", answer) is not None,  # R99999999 is turned so often
    "time_intervals": lambda answer: re.search(r"\bor\b|\bdays?\b.*\bdays?\b", answer) is not None,  # its first number
}
"""Answers of which a verifier sees the beginning alone, or that it would never come to the end of."""

WHOLE_ANSWERS = {"letter_jumble": 0.9, "spell_backward": 0.8, "word_sorting": 0.9}
"""Their verifiers pay in full for the right answer with anything behind it, which earns at most this much here."""


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


def _tower_of_hanoi(dataset: Any) -> None:
    vars(sys.modules[type(dataset).__module__])["print"] = lambda *args, **settings: None  # it prints wrong moves


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
    "tower_of_hanoi": _tower_of_hanoi,
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
_LONGEST_FORMULA = 10_000
_MOST_BITS = 20_000
_MOST_TERMS = 400
"""Of a power or a product that is multiplied out; the powers of a symbol in it, likewise."""
_ARITHMETIC = re.compile(r"[0-9\s()+*/-]*")
_LONG_EXPONENT = re.compile(r"[\d.]e[-+]?\d{3}", re.IGNORECASE)


def is_formula(text: str, *, arithmetic: bool = False) -> bool:
    """Whether `text` is a formula of numbers, one-letter symbols and elementary functions that is cheap to evaluate.

    Powers count by the digits and by the terms they may produce, so that `9**9**9**9` and `(x + 1)**3000` are none.

    Args:
        arithmetic: of decimal integers, operators and brackets alone. Whether the right numbers are used is seen in
            the text, where `0x10`, `1_0` and comments would hide or feign some.
    """
    if len(text) > _LONGEST_FORMULA or _LONG_EXPONENT.search(text):
        return False
    if arithmetic and _ARITHMETIC.fullmatch(text) is None:
        return False
    try:
        _size(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


class _Size(NamedTuple):
    """Upper bounds on a formula multiplied out: bits of its value, symbols counting as small, terms and degree."""

    bits: int
    terms: int = 1
    degree: int = 0

    def times(self, other: _Size) -> _Size:
        return _small(_Size(self.bits + other.bits, self.terms * other.terms, self.degree + other.degree))


def _size(node: ast.expr) -> _Size:
    """The size of a formula; ValueError if it is none, or too large."""
    summands = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):  # a long sum is no deep one
        summands.append(_size(node.right))
        node = node.left
    if summands:
        bits, terms, degree = zip(*summands, _size(node), strict=True)
        return _Size(max(bits) + len(summands), sum(terms), max(degree))
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("no formula")
        case ast.Constant(value=int(number)):
            return _Size(max(1, number.bit_length()))
        case ast.Constant(value=float()):
            return _Size(64)
        case ast.Name(id=name) if len(name) == 1 or name == "pi":
            return _Size(1, 1, 1)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _size(operand)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return _size(left).times(_size(right))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_size(left), right)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return _Size(_size(argument).bits, 1, 1)
    raise ValueError("no formula")


def _power(base: _Size, exponent: ast.expr) -> _Size:
    largest = _largest(exponent)
    if base.terms > 1 and largest > _MOST_TERMS:
        raise ValueError("too large")
    terms = math.comb(base.terms + largest - 1, largest) if base.terms > 1 else 1
    return _small(_Size(base.bits * largest, terms, base.degree * largest))


def _largest(exponent: ast.expr) -> int:
    """An upper bound on the size of an exponent."""
    match exponent:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return max(1, number)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _largest(operand)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int(under))) if under > 0:
            return _largest(left)
    size = _size(exponent)
    return 1 if size.degree else 2**size.bits if size.bits < 32 else _MOST_BITS + 1


def _small(size: _Size) -> _Size:
    if size.bits > _MOST_BITS or max(size.terms, size.degree) > _MOST_TERMS:
        raise ValueError("too large")
    return size

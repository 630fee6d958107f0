"""A bank of questions on closed forms: quantities of wireless communications, and some of other fields.

A question names a quantity and the letters of what it depends on. It asks for the whole formula
(`equation`), for a part of it that is left out (`blank`), or which of three formulas is right (`choice`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hocket.methods.applications.wirelessmathlm.formulas import BLANK, agree, tree

KINDS = ("choice", "blank", "equation")
OPTIONS = "ABC"
_LETTERS = "abcdghkmnprs"


@dataclass(frozen=True)
class ClosedForm:
    """A closed form.

    Attributes:
        name: of the quantity. symbols: what it depends on, by the letter in `formula`.
    """

    name: str
    symbols: dict[str, str]
    formula: str


WIRELESS = (
    ClosedForm("SNR", {"p": "power", "g": "gain", "n": "noise"}, "p*g/n"),
    ClosedForm("SINR", {"s": "signal", "i": "interference", "n": "noise"}, "s/(i+n)"),
    ClosedForm("noise", {"d": "density", "b": "bandwidth"}, "d*b"),
    ClosedForm("capacity", {"b": "bandwidth", "s": "SNR"}, "b*log2(1+s)"),
    ClosedForm("rate", {"p": "power", "g": "gain", "n": "noise"}, "log2(1+p*g/n)"),
    ClosedForm("least SNR", {"r": "rate", "b": "bandwidth"}, "2**(r/b)-1"),
    ClosedForm("outage", {"t": "threshold", "s": "SNR"}, "1-exp(-t/s)"),
    ClosedForm("path loss", {"d": "distance", "w": "wavelength"}, "(4*pi*d/w)**2"),
    ClosedForm("diversity SNR", {"a": "first", "b": "second"}, "a+b"),
    ClosedForm("bit energy", {"p": "power", "r": "rate"}, "p/r"),
)

GENERAL = (
    ClosedForm("triangle", {"b": "base", "h": "height"}, "b*h/2"),
    ClosedForm("energy", {"m": "mass", "v": "speed"}, "m*v**2/2"),
    ClosedForm("parallel", {"a": "first", "b": "second"}, "a*b/(a+b)"),
    ClosedForm("decay", {"a": "start", "t": "time", "c": "life"}, "a*exp(-t/c)"),
    ClosedForm("interest", {"a": "sum", "r": "rate", "y": "years"}, "a*(1+r)**y"),
    ClosedForm("information", {"p": "chance"}, "log2(1/p)"),
)

FIELDS = {"wireless": WIRELESS, "general": GENERAL}


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        text: what is asked. answer: a right answer. frame: the formula, with a blank where the answer goes.
        wrong: answers that a beginner may give.
    """

    text: str
    answer: str
    frame: str
    wrong: tuple[str, ...]


def draw(field: str, kinds: Sequence[str], rng: np.random.Generator) -> Question:
    """A question of a field, of one of the kinds."""
    form = FIELDS[field][int(rng.integers(len(FIELDS[field])))]
    kind = kinds[int(rng.integers(len(kinds)))]
    letters = dict(zip(form.symbols, rng.choice(list(_LETTERS), len(form.symbols), replace=False), strict=True))
    formula = re.sub(r"\b[a-z]\b", lambda found: letters[found[0]], form.formula)
    introduction = f"{form.name}: {', '.join(f'{word} {letters[symbol]}' for symbol, word in form.symbols.items())}"
    wrong = _slips(tree(formula), rng)
    if kind == "equation":
        return Question(f"{introduction}?", formula, BLANK, wrong)
    if kind == "blank":
        frame, part, others = _blanked(tree(formula), rng)
        return Question(f"{introduction}; {frame}?", part, frame, others)
    options = rng.permutation([formula, *wrong[: len(OPTIONS) - 1]]).tolist()
    right = OPTIONS[options.index(formula)]
    listed = " ".join(f"{letter} {option}" for letter, option in zip(OPTIONS, options, strict=True))
    return Question(f"{introduction}; {listed}?", right, BLANK, tuple(letter for letter in OPTIONS if letter != right))


def spelt(node: ast.expr) -> str:
    """A formula as text without spaces."""
    return ast.unparse(node).replace(" ", "")


def commuted(formula: str, rng: np.random.Generator) -> str:
    """The same formula with some sums and products the other way round."""

    def turned(node: ast.AST) -> ast.AST:
        match node:
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult() as op, right=right) if rng.random() < 0.5:
                return ast.BinOp(right, op, left)
        return node

    return spelt(_changed(tree(formula), turned))


def _blanked(whole: ast.expr, rng: np.random.Generator) -> tuple[str, str, tuple[str, ...]]:
    """A formula with a part left out, the part, and wrong parts."""
    parts = [node for node in ast.walk(whole) if isinstance(node, ast.expr) and node is not whole and _lettered(node)]
    parts = [node for node in parts if not (isinstance(node, ast.Name) and node.id not in _LETTERS)] or [whole]
    part = parts[int(rng.integers(len(parts)))]
    frame = spelt(_changed(whole, lambda node: ast.Name(BLANK) if node is part else node))
    names = [node.id for node in ast.walk(whole) if isinstance(node, ast.Name) and node.id in _LETTERS]
    wrong = _slips(part, rng) if not isinstance(part, ast.Name) else tuple(sorted({*names, f"1/{part.id}"} - {part.id}))
    return frame, spelt(part), wrong


def _lettered(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id in _LETTERS for part in ast.walk(node))


def _slips(whole: ast.expr, rng: np.random.Generator) -> tuple[str, ...]:
    """Other formulas that come of one slip, in random order: letters exchanged, an operation, a part left out."""
    slips = dict[str, ast.expr]()
    for node in ast.walk(whole):
        for other in _instead(node, whole):
            slip = _changed(whole, lambda one, node=node, other=other: other if one is node else one)  # type: ignore[misc]
            slips[spelt(slip)] = slip
    wrong = [text for text, slip in slips.items() if not agree(slip, whole)]
    return tuple(rng.permutation(sorted(wrong)).tolist())


def _instead(node: ast.AST, whole: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            operations = (ast.Add(), ast.Mult(), ast.Div(), ast.Sub())
            turned = [ast.BinOp(left, other, right) for other in operations if type(other) is not type(op)]
            return [*turned, ast.BinOp(right, op, left), left, right]
        case ast.Call(args=[argument]):
            return [argument]
        case ast.UnaryOp(operand=operand):
            return [operand]
    return []


def _changed(node: ast.expr, change: Callable[[ast.AST], ast.AST]) -> ast.expr:
    """A copy of a formula in which each part is what `change` makes of it, from the outside in."""
    changed = change(node)
    if changed is not node and not isinstance(changed, ast.BinOp):
        return changed  # type: ignore[return-value]
    match changed:
        case ast.BinOp(left=left, op=op, right=right):
            return ast.BinOp(_changed(left, change), op, _changed(right, change))
        case ast.UnaryOp(op=op, operand=operand):
            return ast.UnaryOp(op, _changed(operand, change))
        case ast.Call(func=func, args=[argument]):
            return ast.Call(func, [_changed(argument, change)], [])
    return changed

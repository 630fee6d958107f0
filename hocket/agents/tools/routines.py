"""Small functions of Python's standard library that can be broken and repaired, and what to call them with.

Nothing of them is kept here: their text is read from the interpreter that runs, so that it follows the
version; a function that it lacks is passed over.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hocket.core.keys import Key

Draw = Callable[[np.random.Generator], tuple[Any, ...]]

TESTS, HELD = 8, 8
"""Calls that a function is tested by where all may see it, and further ones that only the reward tries."""


@dataclass(frozen=True)
class Routine:
    """A function of a module, and how arguments for it are drawn."""

    module: str
    name: str
    draw: Draw

    @property
    def file(self) -> str:
        """The module's file as a path inside its library."""
        return f"{self.module.replace('.', '/')}.py"


@dataclass(frozen=True)
class Original:
    """A routine as it is installed.

    Attributes:
        lines: of its module; what would put compiled functions in place of Python's is left blank.
        first, last: the lines of its definition, from 1. hidden: those of its docstring, which are not shown.
        tests: calls and what they give, both as text; whoever works on the routine may be shown them.
        held: further ones, which nobody is shown, so that a table of the others is not the function.
    """

    routine: Routine
    lines: tuple[str, ...]
    first: int
    last: int
    hidden: range
    tests: tuple[tuple[str, str], ...]
    held: tuple[tuple[str, str], ...]

    @property
    def all_tests(self) -> tuple[tuple[str, str], ...]:
        """What decides: those that are shown and those that are held back."""
        return self.tests + self.held


def _number(low: int, high: int) -> Callable[[np.random.Generator], int]:
    return lambda rng: int(rng.integers(low, high))


def _share(rng: np.random.Generator) -> float:
    return round(float(rng.integers(0, 11)) / 10, 1)


def _of(*words: Any) -> Callable[[np.random.Generator], Any]:
    return lambda rng: words[int(rng.integers(len(words)))]


def _list(low: int, high: int, least: int = 1, most: int = 7) -> Callable[[np.random.Generator], list[int]]:
    return lambda rng: [int(number) for number in rng.integers(low, high, size=int(rng.integers(least, most)))]


def _all(*draws: Callable[[np.random.Generator], Any]) -> Draw:
    return lambda rng: tuple(draw(rng) for draw in draws)


_YEAR = _of(4, 100, 400, 1600, 1700, 1800, 1900, 1999, 2000, 2001, 2003, 2004, 2023, 2024, 2100, 2400)
_PATH = _of("a/b", "/a", "a", "/a//b.c", "//a/b/", "/", "b/c/d.e", "", "x//y", "///p/q")

ROUTINES = (
    Routine("calendar", "isleap", _all(_YEAR)),
    Routine("calendar", "leapdays", _all(_YEAR, _YEAR)),
    Routine("calendar", "_monthlen", _all(_YEAR, _number(1, 13))),
    Routine("calendar", "_prevmonth", _all(_YEAR, _number(1, 13))),
    Routine("calendar", "_nextmonth", _all(_YEAR, _of(1, 2, 6, 10, 11, 12))),
    Routine("colorsys", "rgb_to_yiq", _all(_share, _share, _share)),
    Routine("colorsys", "hls_to_rgb", _all(_share, _share, _share)),
    Routine("colorsys", "_v", _all(_share, _share, _share)),
    Routine("difflib", "_calculate_ratio", _all(_number(0, 9), _number(0, 30))),
    Routine("difflib", "_format_range_unified", _all(_number(0, 9), _number(8, 15))),
    Routine("difflib", "_format_range_context", _all(_number(0, 9), _number(8, 15))),
    Routine("statistics", "median", _all(_list(-9, 30))),
    Routine("statistics", "median_low", _all(_list(-9, 30))),
    Routine("statistics", "median_high", _all(_list(-9, 30))),
    Routine("operator", "countOf", _all(_list(0, 4), _number(0, 4))),
    Routine("operator", "indexOf", _all(_list(0, 3, 4, 9), _number(0, 3))),
    Routine("quopri", "ishex", _all(_of(b"0", b"9", b"a", b"f", b"A", b"F", b"g", b"G", b"/", b":", b"@", b"`"))),
    Routine("encodings.punycode", "selective_len", _all(_of("abc", "a\u00e9b", "z\u0101", ""), _number(98, 300))),
    Routine("encodings.punycode", "T", _all(_number(0, 12), _of(0, 26, 72, 100, 200))),
    Routine("encodings.punycode", "adapt", _all(_number(0, 3000), _of(True, False), _number(1, 9))),
    Routine("ipaddress", "_count_righthand_zero_bits", _all(_of(0, 1, 2, 4, 12, 16, 40, 96), _of(3, 8, 32))),
    Routine("genericpath", "commonprefix", _all(_of(["abc", "abd"], ["a/b", "a/c"], ["x"], [], ["ab", "ab", "aa"]))),
    Routine("posixpath", "split", _all(_PATH)),
    Routine("posixpath", "dirname", _all(_PATH)),
    Routine("posixpath", "basename", _all(_PATH)),
    Routine("email.base64mime", "header_length", _all(_of(b"", b"a", b"abc", b"abcd", b"x" * 9, b"x" * 11))),
    Routine("email.utils", "unquote", _all(_of('"a"', "<b>", "<c", "d", '"', "", "<>", '"e\\\\"'))),
    Routine("urllib.parse", "unwrap", _all(_of("<URL:a>", "<b>", "URL:c", "<d", "e>", " <f> ", ""))),
    Routine("plistlib", "_count_to_size", _all(_of(0, 1, 200, 255, 256, 300, 65535, 65536, 70000, 1 << 32))),
    Routine(
        "unittest.util", "_shorten", _all(_of("abcdefghijkl" * 3, "abc" * 9, "short"), _number(1, 6), _number(1, 6))
    ),
    Routine("_strptime", "_calc_julian_from_U_or_W", _all(_YEAR, _number(0, 53), _number(0, 7), _of(True, False))),
)
"""Those that are broken, in an order that stays."""


@lru_cache(maxsize=64)
def installed(routine: Routine) -> Original | None:
    """A routine as this interpreter has it; None where it has none, or not in Python."""
    try:
        module = importlib.import_module(routine.module)
        text = inspect.getsource(module)
    except (ImportError, OSError, TypeError):
        return None
    tree = ast.parse(text)
    functions = [part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name == routine.name]
    if len(functions) != 1 or not callable(getattr(module, routine.name, None)):
        return None
    (node,), lines = functions, text.splitlines()
    for part in tree.body:
        if isinstance(part, ast.Try) and _compiled(part):
            indent = range(part.lineno - 1, part.end_lineno or part.lineno)
            lines[indent.start : indent.stop] = ["" for _ in indent]
    tests = _tests(routine, getattr(module, routine.name))
    if len(tests) < 2:
        return None
    # Where there are few different calls a third of them is held back.
    shown, last = min(TESTS, len(tests) - (len(tests) + 2) // 3), node.end_lineno or node.lineno
    return Original(routine, tuple(lines), node.lineno, last, _docstring(node), tests[:shown], tests[shown:])


def _compiled(block: ast.Try) -> bool:
    """Whether a `try` imports compiled functions over those written above it, as `from _bisect import *` does."""
    return all(isinstance(node, ast.ImportFrom) and (node.module or "").startswith("_") for node in block.body)


def _docstring(node: ast.FunctionDef) -> range:
    first = node.body[0]
    if ast.get_docstring(node) is None or len(node.body) == 1:
        return range(0)
    return range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _tests(routine: Routine, function: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """Different calls with what they give; those that raise are no tests."""
    tests: dict[str, str] = {}
    rng = Key.of(0).derive("routine", routine.module, routine.name).numpy()
    for _ in range(20 * (TESTS + HELD)):
        arguments = routine.draw(rng)
        call = f"{routine.name}({', '.join(map(repr, arguments))})"
        try:
            tests.setdefault(call, repr(function(*arguments)))
        except Exception:  # What is tested is what it gives.
            continue
        if len(tests) == TESTS + HELD:
            break
    return tuple(tests.items())

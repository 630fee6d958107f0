"""Formulas as answers, compared by math-verify (the extra `math`): `\\frac{1}{2}` is `0.5`, and `2x + 2` is `2(x + 1)`.

math-verify reads TeX and lets sympy compare, which may take for ever and would execute nothing here but its grammar's
trees. So every comparison is made in the process of `hocket.core.bounded_calls`, where a time limit holds in threads
too.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Callable

from hocket.core.bounded_calls import OverTime, bounded
from hocket.core.errors import ConfigurationError
from hocket.core.markup import tagged
from hocket.core.numerals import last_number, numeral

_LONGEST = 1000
_BOX = re.compile(r"\\f?boxed\s*\{|\\fbox\s*\{")
_MATHEMATICS = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_WORDS = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox)\s*\{([^{}]*)\}")
_LETTERS = re.compile(r"(?:[^\W\d_]{2,}|\s|[.,;:'-])+")
_ENDLESS = re.compile(r"\^\s*\{?\s*-?\d{4,}|\d\s*\}?\s*\^\s*\{?\s*\d+\s*\}?\s*\^|\d{3,}\s*!|\^[^{]*\{[^}]*\^[^}]*\^")


def check_installed() -> None:
    """Raises `ConfigurationError` unless math-verify is installed."""
    if importlib.util.find_spec("math_verify") is None:
        raise ConfigurationError("extract = 'math' needs the package math-verify: pip install 'hocket[math]'")


def last_formula(text: str) -> str | None:
    """The answer of a response that works in TeX: its last box, else its tags, else its last formula or number.

    A box counts inside the tags where there are tags.
    """
    inside = tagged(text)
    scope = text if inside is None else inside
    boxed = _boxed(scope)
    if boxed is not None or inside is not None:
        return inside if boxed is None else boxed
    formulas = [next(filter(None, part), "") for part in _MATHEMATICS.findall(text)]
    return formulas[-1].strip() if formulas else last_number(text)


def _boxed(text: str) -> str | None:
    """What the last box that is closed holds."""
    for box in reversed(list(_BOX.finditer(text))):
        depth = 1
        for place in range(box.end(), min(len(text), box.end() + _LONGEST)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if not depth:
                return text[box.end() : place].strip()
    return None


def same_formula(given: str, known: str, equal: Callable[[str, str], bool]) -> bool:
    """Whether two answers are equal as texts or numbers by `equal`, or as formulas. What takes too long is not."""
    given, known = _bare(given), _bare(known)
    if equal(given, known):
        return True
    if numeral(given) is not None and numeral(known) is not None:
        return False
    if _LETTERS.fullmatch(known) or max(len(given), len(known)) > _LONGEST or _ENDLESS.search(given) or not given:
        return False
    try:
        return bool(bounded(_verified, given, known))
    except (OverTime, RuntimeError):
        return False


def _bare(text: str) -> str:
    """Without the signs of mathematics around it and the commands that only set words."""
    text = _WORDS.sub(r"\1", text).strip().removesuffix(".")
    match = _MATHEMATICS.fullmatch(text)
    return next(filter(None, match.groups()), "").strip() if match else text.strip()


def _verified(given: str, known: str) -> bool:
    """The comparison itself, in the process apart."""
    logging.disable()  # it warns that it has no time limit of its own, which stands around it here
    from math_verify import LatexExtractionConfig, parse, verify

    config = (LatexExtractionConfig(),)
    left, right = (
        parse(f"${text}$", extraction_config=config, fallback_mode="no_fallback", parsing_timeout=None)
        for text in (known, given)
    )
    return bool(left and right and verify(left, right, timeout_seconds=None))

"""Numbers as texts write them: the one reader for answers, known answers and cells. docs/numbers.md is its page.

A value is exact: an `int`, or a `Fraction` where it is none. What is not surely one number is none at all, since a
number that is read wrongly is a wrong answer paid.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

Number: TypeAlias = int | Fraction
"""An exact value, never NaN or infinite."""

LONGEST = 400
"""Characters of a number that is read; the largest float has 309 digits."""

_HYPHENS = "-‐‑−﹣－"
_MINUS = _HYPHENS + "‒–—―"
_SIGNS = f"+＋﹢{re.escape(_MINUS)}"
_SIGN = f"[{_SIGNS}]"
_COINS = "".join(chr(code) for code in range(0x20D0) if unicodedata.category(chr(code)) == "Sc")
_MONEY = rf"\\?[{_COINS}]"
_SLASH = "[/÷⁄∕]"
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_VULGAR = {
    chr(code): Fraction(unicodedata.normalize("NFKC", chr(code)).replace("⁄", "/"))
    for code in (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F), 0x2189)
}
_PIECES = "".join(_VULGAR)
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}

_FRACTION = (
    rf"(?:(?P<mixed>[0-9]+)(?:[ \u00a0]|(?=[{_PIECES}\\])))?"
    r"(?:\\[dtc]?frac\s*(?:\{\s*(?P<over>[-+−]?[0-9]+)\s*\}\s*\{\s*(?P<under>[-+−]?[0-9]+)\s*\}|(?P<pair>[0-9]{2}))"
    rf"|(?P<above>[0-9]+)[ \u00a0]?{_SLASH}[ \u00a0]?(?P<below>[0-9]+)(?![.,]?[0-9])|(?P<piece>[{_PIECES}]))"
)
_GAP = r"[,'’ \u00a0\u2009\u202f]|\{,\}|\\[,;:! ]"
_DIGITS = (
    f"(?:[1-9][0-9]{{0,2}}(?P<gap>{_GAP})[0-9]{{3}}(?:(?P=gap)[0-9]{{3}})*(?![0-9])"  # 1,234,567
    "|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9])"  # 12,34,567
    "|[0-9]+)"
)
_TENS = (
    r"[eE](?P<e>[-+−]?[0-9]{1,3})(?![0-9])"
    r"|[ \u00a0]?(?:×|x|\*|·|\\times|\\cdot)[ \u00a0]?10"
    r"(?:(?:\^|\*\*)[{(]?(?P<ten>[-+−]?[0-9]{1,3})(?![0-9])[)}]?|(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))"
)
_NUMERAL = re.compile(
    rf"(?=[\d.\\{_PIECES}{_SIGNS}{_COINS}])"  # which spares most places of a text
    rf"(?P<sign>{_SIGN})?(?:(?P<money>{_MONEY})[ \u00a0]?)?(?P<inner>{_SIGN})?"
    rf"(?:{_FRACTION}|(?P<number>{_DIGITS}(?:\.[0-9]+)?|(?<![.A-Za-z])\.[0-9]+)(?:{_TENS})?)"
    rf"(?:[ \u00a0](?P<scale>{'|'.join(_SCALES)})\b)?(?:[ \u00a0]?(?P<unit>\\?%|{_MONEY}))?"
    r"|(?P<odd>\d)"  # of another script, or of full width
)

# What beside a number makes it part of something else. In front: an operand of what is no sum, a root, ± or ≠.
_PART_LEFT = re.compile(
    rf"(?:[\d{_PIECES}](?:[.,:'’_]|\s?(?:{_SLASH}|\^|\*\*?|[×·x])\s?[{{(]?)|[)\]}}%][{re.escape(_MINUS)}]?"
    rf"|\d|[√∛±∓≠]\s?|!=\s?|\\(?:sqrt(?:\[\w+\])?|pm|mp|neq?)\s*[{{\[]?|\bsqrt\s?\("
    rf"|(?:(?<![A-Za-z])[A-Za-z]{{1,2}}|\\[a-z]+|[π)\]}}])\s?{_SLASH}\s?[{{(]?"
    r"|\}\s*\{\s*[-+−]?|\\[dtc]?frac\s*(?:\{[^{}]*|\d\s*\{?)?|\d\.\("
    r"|\\(?:times|cdot|div|over|overline|bar|dot)\s*[{(]?)\Z"
)
_PART_RIGHT = re.compile(
    rf"[.,:'’_]?\d|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻{_PIECES}]|\s?(?:\^|\*\*\s?[\d(]|{_SLASH}\s?(?:[\d(π√\\]|[abcijknpqrtuvxyz]\b))"
    r"|\s?[*×·x]\s?\d|[A-Za-z]+\d|[eE][-+−]\d|[ij]\b|(?:[kKMB]|[bm]n)\b"
    r"|\s?(?:π|√|±|\\(?:pi|sqrt|pm|times|cdot|div|over)(?![a-z])|(?:pi|sqrt)\b|\+/)"
)
_IN_SHORT = re.compile(r"\s?(?:[kKmMbBT]|[bmt]n|mm)\b")
"""Behind money: `$5m`."""
_A_DATE = re.compile(rf"\d[{_HYPHENS}–]\d+[{_HYPHENS}–]\Z")
_SIGNED = re.compile(rf"{_SIGN}(?:\s*|/)\Z")
_SIGNED_AROUND = re.compile(rf"[{re.escape(_MINUS)}](?:\*+|\\f?boxed\s*\{{|\()\Z")
_RAISES = re.compile(r"[A-Za-z)\]}]\s?(?:\^|\*\*)\s?[{(]?\Z")
_IN_A_WORD = re.compile(r"(?:(?<![\\A-Za-z])[A-Za-z]+|[^\W_]_+\{?)\Z")
_COUNTRY = re.compile(r"(?<![A-Za-z])[A-Z]{1,3}\Z")
_BEHIND_WORD = re.compile(r"[^\W_]_*\Z")
_SPOKEN_SIGN = re.compile(
    r"(?:(?<![\w-])negative|(?<![\w-])(?<![\d)\]}%]\s)(?<!\b[A-Za-z]\s)minus)\s+\Z", re.IGNORECASE
)
_APART_SIGN = re.compile(rf"[=≈≃≅<>≤≥(\[{{:][ \t]*(?P<sign>[{re.escape(_MINUS)}])[ \t]+\Z")
_HEDGE = re.compile(r"\W*(?:\w+\W+)?or\W+(?:(?:maybe|possibly|perhaps|else|even|is it)\W+)*", re.IGNORECASE)
_NEAR = 24
_LARGEST = int(sys.float_info.max)

_AROUND = (
    *((mark, mark) for mark in ("**", "__", "*", "_", "`", "$$", "$")),
    *((r"\(", r"\)"), (r"\[", r"\]"), (r"\boxed{", "}"), (r"\fbox{", "}")),
)
"""What may stand around a whole number and says nothing, from the outermost."""

_LISTED = re.compile(
    rf"(?<![\w.]){_SIGN}?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+−]?[0-9]{{1,3}})?(?![\d_]|\.\d|[eE][-+−]?\d)"
)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number that was read: its value, and what it counts: `%`, the sign of a currency, or nothing."""

    value: Number
    unit: str = ""

    def equals(self, other: Numeral) -> bool:
        """Whether both are the same by value. Units tell them apart only where both have one."""
        return self.value == other.value and (self.unit == other.unit or not self.unit or not other.unit)


@functools.lru_cache(maxsize=4096)
def numeral(text: str) -> Numeral | None:
    """The number that a whole text is, spaces around it and a point behind it aside; None for anything else."""
    text = text.strip()
    if not text or len(text) > LONGEST:
        return None
    if text.isascii() and text[text[0] == "-" :].isdigit():  # nearly all of them
        return Numeral(int(text))
    text = text.removesuffix(".")
    for opening, closing in _AROUND:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening + closing):
            text = text[len(opening) : -len(closing)].strip().removesuffix(".")
    match = _NUMERAL.fullmatch(text)
    return None if match is None else _read(match)


def number(text: str) -> Number | None:
    """The value of the number that a whole text is; see `numeral`."""
    parsed = numeral(text)
    return None if parsed is None else parsed.value


def last_number(text: str) -> str | None:
    """The last number among words, as it is written there, with its sign.

    None without one, and where the last is part of something else (`1.2.3`, `10,00`, `2^10`, `3π`) or one of two
    between which the text does not choose (`5 or 7`). Numbers inside words (`x1`, `GPT-4`, `m^2`) are passed over. A
    minus behind a number subtracts and is no sign.
    """
    last: tuple[str, int] | None = None
    for match in reversed(list(_NUMERAL.finditer(text))):
        written = _among_words(text, match)
        if written is None:
            continue
        if last is not None:
            return None if _HEDGE.fullmatch(text[match.end() : last[1]]) else last[0]
        if not written:
            return None
        last = written, match.start()
    return None if last is None else last[0]


def listed(text: str) -> list[float]:
    """All numbers of a text in which commas, spaces and brackets part them, such as the corners of a box."""
    numbers = (number(part) for part in _LISTED.findall(text))
    return [float(value) for value in numbers if value is not None and -_LARGEST <= value <= _LARGEST]


def spelled(value: Any) -> str:
    """A number as digits without an exponent: 1e-05 is `0.00001`. NaN and infinities are as Python writes them."""
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    return format(Decimal(repr(value)), "f")


def _read(match: re.Match[str]) -> Numeral | None:
    part = match.groupdict()
    signs = [sign for sign in (part["sign"], part["inner"]) if sign]
    size = _size(part)
    if size is None or len(signs) > 1:
        return None
    size *= _SCALES.get(part["scale"] or "", 1)
    units = {unit.removeprefix("\\") for unit in (part["money"], part["unit"]) if unit}
    if len(units) > 1:
        return None
    value = -size if signs and signs[0] in _MINUS else size
    return Numeral(value.numerator if value.denominator == 1 else value, units.pop() if units else "")


def _size(part: dict[str, str | None]) -> Number | None:
    """The value without its sign; None for none, as over 0."""
    if (written := part["number"]) is not None:
        digits, _, decimals = re.sub("[^0-9.]", "", written).partition(".")
        power = int((part["e"] or part["ten"] or (part["raised"] or "0").translate(_RAISED)).replace("−", "-"))
        power -= len(decimals)
        size = int(digits + decimals)
        return size * 10**power if power >= 0 else Fraction(size, 10**-power)
    if part["odd"] is not None:
        return None
    over, under = part["over"] or part["above"], part["under"] or part["below"]
    if part["pair"]:
        over, under = part["pair"][0], part["pair"][1]
    above, below = (int((term or "1").replace("−", "-")) for term in (over, under))
    if below == 0:
        return None
    size_ = _VULGAR[part["piece"]] if part["piece"] else Fraction(above, below)
    if part["mixed"] is None:
        return size_
    return int(part["mixed"]) + size_ if 0 <= size_ < 1 else None


def _among_words(text: str, match: re.Match[str]) -> str | None:
    """A number with the sign that it has in a text; empty for part of something else, None for part of a word."""
    start, end = match.span()
    left, right = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    sign, subtracted = match["sign"], False
    dollars = match["money"] is not None and _COUNTRY.search(left) is not None
    if _RAISES.search(left):
        return None
    if sign and _BEHIND_WORD.search(left):
        if sign in _HYPHENS and left[-1].isascii() and not left[-1].isdigit():
            return None
        left, start, sign, subtracted = left + sign, start + 1, None, True  # or it parts two sentences
    elif not sign and _IN_A_WORD.search(left) and not (_PART_LEFT.search(left) or dollars):
        return None
    before = _A_DATE.search(left) if subtracted else _PART_LEFT.search(left) or _SIGNED_AROUND.search(left)
    if before is None and sign:
        before = _SIGNED.search(left)
    part = before or _PART_RIGHT.match(right) or (match["money"] and _IN_SHORT.match(right))
    if part or end - start > LONGEST or _read(match) is None:
        return ""
    apart = None if sign or subtracted or match["inner"] else _APART_SIGN.search(left) or _SPOKEN_SIGN.search(left)
    return f"{'-' if apart else ''}{text[start:end]}"

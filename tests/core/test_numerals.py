"""Numbers as texts write them."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.numerals import LONGEST, Numeral, last_number, listed, number, numeral, spelled

LAW = settings(max_examples=100, deadline=None, derandomize=True)

WHOLE = {
    "5": 5,
    " 007 ": 7,
    "+5": 5,
    "-5": -5,
    "\u22125": -5,  # a minus sign
    "\u20135": -5,  # an en dash
    "－5": -5,
    "5.": 5,
    ".5": Fraction(1, 2),
    "-0": 0,
    "1e3": 1000,
    "1E-05": Fraction(1, 100_000),
    "2.5e\u22123": Fraction(1, 400),
    "1e400": 10**400,
    "1/2": Fraction(1, 2),
    "-1 / 2": Fraction(-1, 2),
    "1⁄2": Fraction(1, 2),
    "½": Fraction(1, 2),
    "-1½": Fraction(-3, 2),
    "2 1/4": Fraction(9, 4),
    r"\frac{1}{2}": Fraction(1, 2),
    r"-\dfrac34": Fraction(-3, 4),
    "1,234,567": 1_234_567,
    "12,34,567": 1_234_567,
    "10 000": 10_000,
    "10\u202f000.5": Fraction(20_001, 2),
    "10'000": 10_000,
    "1.5×10^3": 1500,
    "2 * 10**-3": Fraction(1, 500),
    "2·10⁻³": Fraction(1, 500),
    "3 million": 3_000_000,
    "$5": 5,
    "-$5": -5,
    "5 €": 5,
    "50%": 50,
    r"50\%": 50,
    "$5$": 5,
    r"\(-5\)": -5,
    r"\frac{-3}{4}": Fraction(-3, 4),
    r"2\frac{3}{4}": Fraction(11, 4),
    r"1{,}234": 1234,
    r"12\,345": 12_345,
    "**5**": 5,
    "**-5.**": -5,
    "`5`": 5,
    "_5_": 5,
    "$$5$$": 5,
    r"\[5\]": 5,
    r"$\boxed{5}$": 5,
}

NONE = (
    *(
        "",
        ".",
        "-",
        "$",
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "None",
        "1_0",
        "0x5",
        "1e",
        "e5",
        "1e99999",
        "5 or 7",
        "1 2",
    ),
    *("10,00", "1,2", "0,001", "1,234,56", "1,2345", "1.234,5", "1.2.3", "--5", "-$-5", "±5", "5..", "1/0", "1/2/3"),
    *("2 3/2", "5²", "2^10", "3π", "3i", "5 apples", "(5)", "٥", "５", "1٥", "5\u200b", "10:30", "9" * (LONGEST + 1)),
)


@pytest.mark.parametrize(("text", "value"), WHOLE.items())
def test_what_is_a_number(text: str, value: int | Fraction) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", NONE)
def test_what_is_none(text: str) -> None:
    assert number(text) is None


LAST = {
    "it is minus 5": "-5",
    "It is negative 5.": "-5",
    "12 minus 5": "5",
    "non-negative 5": "5",
    "9.8 m s^-2": "9.8",
    "4 s^{-1}": "4",
    "costs US$5": "$5",
    "60 km/h": "60",
    "$5/hour": "$5",
    "__5__": "5",
    "_-5_": "-5",
    "Rs.500": "500",
    "- **5**": "5",
    r"\boxed{1\,234}": r"1\,234",
    "so x = \u22125": "\u22125",
    "(–5)": "–5",
    "= - 5": "-5",
    "≈ \u2212 0.5": "-0.5",
    "12 - 5": "5",
    "12\u22125": "5",
    "3–5": "5",
    "the answer – 5": "5",
    "the answer—5": "5",
    "- 5": "5",
    "about 2.5e-3 m": "2.5e-3",
    "1e3": "1e3",
    "so 1/2": "1/2",
    "so 1 / 2": "1 / 2",
    r"is \frac{1}{2}.": r"\frac{1}{2}",
    r"\boxed{-5}": "-5",
    "$-5$": "$-5$",
    "costs -$5.": "-$5",
    "it is 50 %.": "50 %",
    "10,000.": "10,000",
    "10 000": "10 000",
    "2 1/2": "2 1/2",
    "5 million people": "5 million",
    "5kg": "5",
    "5 m^2": "5",
    "5 m2": "5",
    "x_1 = 3": "3",
    "答案是5个": "5",
    "...5": "5",
    "5!": "5",
    "**5**": "5",
    "3x4=12": "12",
    "x^2 = 9": "9",
    "In 5 or 6 steps we find 12": "12",
    "100 metres or more": "100",
    "between 5 and 7": "7",
    "[1, 2]": "2",
}

NO_LAST = (
    *("x/2", "1/x", "3/x^2", "π/2", "(1+2)/3", r"\frac{x}{2}", r"\frac{1}{x}", r"\frac{\sqrt{3}}{2}", r"\frac 3 4"),
    *(r"\sqrt[3]{5}", r"5\cdot 3", r"5 \times 3", r"0.\overline{3}", "0.(3)", r"{3 \over 4}", "-(5)", r"-\boxed{5}"),
    *("2024-01-05", "5k", "$5M", "$5 bn", "-**5**"),
    *(
        "",
        "none",
        "1_0",
        "-1_0",
        "12٥",
        "3, so ٥",
        "3, so ５",
        "10,00",
        "5,6",
        "1,5",
        "1.2.3",
        "10:30",
        "10/12/2024",
        "5²",
    ),
    *("2^10", "2 ** 10", "√2", r"\sqrt{2}", "sqrt(2)", "3π", r"2\pi", "3+4i", "10*3", "3 x 4", "0x5", "1920x1080"),
    *("1e99999", "1e-99999", "5 ± 2", "x ≠ 5", "--5", "12 - -3", "(2)-5", "x-5", "GPT-4", "m2", "1/0"),
    *("5 or 7", "5, or 7", "5 apples or maybe 7 apples", "5% or 7%"),
)


@pytest.mark.parametrize(("text", "found"), LAST.items())
def test_the_last_number(text: str, found: str) -> None:
    assert last_number(text) == found


@pytest.mark.parametrize("text", NO_LAST)
def test_no_number_where_the_last_is_part_of_something_else(text: str) -> None:
    assert last_number(text) is None


@LAW
@given(value=st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=9))
def test_decimals_are_read_exactly(value: Decimal) -> None:
    """However they are written; Python's own reading is the other one."""
    for text in (str(value), f"{value:f}", f"{value:e}", f"{value:,f}", str(value).replace("-", "\u2212")):
        assert number(text) == Fraction(value), text
    assert number(last_number(f"so x is {value:f}, surely") or "") == Fraction(value)


@LAW
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_spelled_out(value: float) -> None:
    """As digits that read as the shortest decimal of the float."""
    assert "e" not in spelled(value)
    assert number(spelled(value)) == Fraction(Decimal(repr(value)))


@LAW
@given(text=st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    found = last_number(text)
    assert found is None or number(found) is not None
    listed(text)


def test_no_value_is_too_long_to_be_written() -> None:
    """Python writes integers of up to 4,300 digits."""
    largest = number("9" * (LONGEST - 8) + "e999")
    assert largest is None or len(str(largest)) < 4300
    assert number("1e999") == 10**999


def test_units_tell_numbers_apart_where_both_have_one() -> None:
    read = [numeral(text) for text in ("$5", "€5", "5%", "5")]
    dollars, euros, percent, plain = (one for one in read if one is not None)
    assert dollars == Numeral(5, "$")
    assert not dollars.equals(euros)
    assert not percent.equals(dollars)
    assert all(one.equals(plain) and plain.equals(one) for one in (dollars, euros, percent))


def test_lists_of_numbers() -> None:
    assert listed("The box is [10,200,-3.5, 1e2].") == [10, 200, -3.5, 100]
    assert listed("from 3.5s-7s") == [3.5, 7]
    assert listed("1_0 ٥ 1e9999 x1") == []


@pytest.mark.parametrize(
    "text",
    ["1" * 9_000, "1,111" * 2_000, "1 111 " * 1_500, "1/" * 5_000, "1e" * 5_000, "9 9/" * 2_500, "5 " + "or " * 3_000],
)
def test_long_texts_are_read_in_time(text: str) -> None:
    began = time.process_time()
    last_number(text)
    number(text)
    listed(text)
    assert time.process_time() - began < 1

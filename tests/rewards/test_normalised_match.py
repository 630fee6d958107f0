"""Answers as open questions are graded: what may differ, and what may not."""

from __future__ import annotations

import time

import pytest

from hocket.rewards.normalised_match import NormalisedMatch, normalised
from hocket.types import Scenario

SAME = [
    ("The  Cat!", "cat"),
    ("the Beatles.", "Beatles"),
    ("U.S.", "us"),
    ("O'Brien", "obrien"),
    ("well-known", "wellknown"),
    ("AT&T", "att"),
    (".NET", "net"),
    ("COVID-19", "covid19"),
    ("(Rome)", '"rome"'),
    ("$1,000", "1000"),
    ("1,000 people", "1000 people"),
    ("50%", "50"),
    ("3.0", "3"),
    ("\u22125", "-5"),
    ("1/2", "0.5"),
    ("10:30", "10:30."),
    ("1990–1995", "1990-1995"),
    ("c++", "C++"),
    ("A.", "a"),
    ("the the", "The The"),
    ("!", "!"),
    ("Cafe\u0301", "Caf\u00e9"),
    ("“Paris”", "Paris"),
    ("日本。", "日本"),
    ("$5", "5"),
    ("2019 – 2020", "2019-2020"),
]
OTHER = [
    ("", "the"),
    ("", ""),
    (".", "?"),
    ("a", "an the"),
    ("The", "A"),
    ("vitamin a", "vitamin"),
    ("-5", "5"),
    ("\u22125", "5"),
    ("-5 m", "5 m"),
    ("-5m", "5m"),
    ("+5", "-5"),
    ("1.5", "15"),
    ("1.5 m", "15 m"),
    ("1.5m", "15m"),
    ("3.0", "30"),
    ("10,00", "1000"),
    ("1_0", "10"),
    ("٥", "5"),
    ("1/2", "12"),
    ("10:30", "1030"),
    ("5'10", "510"),
    ("1990-1995", "19901995"),
    ("2024-01-05", "20240105"),
    ("192.168.0.1", "19216801"),
    ("x^2", "x2"),
    ("<5", "5"),
    ("C", "C++"),
    ("C#", "C++"),
    ("F#", "F"),
    ("A+", "A"),
    ("not 5", "5"),
    ("A-", "A"),
    ("$5", "€5"),
    ("a+b", "ab"),
    ("a-b", "a+b"),
    ("x>y", "x<y"),
    ("- 5", "5"),
    ("5 - 3", "5 3"),
]


@pytest.mark.parametrize(("given", "known"), SAME)
def test_what_is_the_same(given: str, known: str) -> None:
    assert NormalisedMatch().verify(f"<answer>{given}</answer>", Scenario("s", "q", ["no", known])) == 1.0


@pytest.mark.parametrize(("given", "known"), OTHER)
def test_what_is_another(given: str, known: str) -> None:
    for one, other in ((given, known), (known, given)):
        assert NormalisedMatch().verify(f"<answer>{one}</answer>", Scenario("s", "q", other)) == 0.0


def test_long_texts_take_no_time() -> None:
    began = time.process_time()
    for text in ("-" * 10_000, "1," * 5_000, "a." * 5_000, "1-" * 5_000, "=" * 10_000):
        normalised(text)
    assert time.process_time() - began < 1

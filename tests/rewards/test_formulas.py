"""Answers in TeX."""

from __future__ import annotations

import importlib.util
import threading
import time

import pytest

from hocket.core.errors import ConfigurationError
from hocket.rewards.formulas import last_formula
from hocket.rewards.verifiers import ExactMatch
from hocket.tasks.sums import Sums
from hocket.types import Scenario


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{1} or rather \boxed{2}", "2"),
        (r"<answer>\frac12</answer>", r"\frac12"),
        (r"<answer>so \boxed{3}</answer> \boxed{4}", "3"),
        (r"$x^2$, then $\sqrt{8}$", r"\sqrt{8}"),
        (r"\[ x + 1 \]", "x + 1"),
        (r"\boxed{5", "5"),
        ("it is 12", "12"),
        ("none", None),
    ],
)
def test_what_counts_as_the_answer(text: str, formula: str | None) -> None:
    assert last_formula(text) == formula


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"^extract = 'math' needs the package math-verify: pip install"):
        ExactMatch("math")
    with pytest.raises(ConfigurationError, match=r"task sums.*: extract = 'math' needs"):
        Sums(extract="math")


CASES = [
    (r"\frac{1}{2}", "0.5", 1),
    (r"\dfrac12", r"\frac{1}{2}", 1),
    ("2x + 2", "2(x+1)", 1),
    ("2x + 2", "2(x+2)", 0),
    (r"\sqrt{8}", r"2\sqrt{2}", 1),
    ("x = 5", "5", 1),
    ("(1,2)", "(1,2)", 1),
    ("(2,1)", "(1,2)", 0),
    (r"\{1,2\}", r"\{2,1\}", 1),
    (r"\text{Rome}", "Rome", 1),
    ("emoR", "Rome", 0),
    (r"5 \text{ or } 7", "5", 0),
    ("5, 7", "5", 0),
    ("-5", "5", 0),
    ("10,00", "1000", 0),
    ("0.333", r"\frac{1}{3}", 0),
    (r"\pi", "3.14", 0),
    ("", "5", 0),
]


@pytest.mark.parametrize(("given", "known", "due"), CASES)
def test_formulas_are_compared_by_value(given: str, known: str, due: float) -> None:
    pytest.importorskip("math_verify")
    assert ExactMatch("math").verify(rf"so \boxed{{{given}}}", Scenario("s", "q", known)) == due


def test_what_takes_too_long_is_wrong_in_any_thread() -> None:
    pytest.importorskip("math_verify")
    found: list[float | None] = []

    def verify() -> None:
        for text in ("9^{9^{9^{9}}}", "100000!", "(x+1)^{30000}", "2x"):
            found.append(ExactMatch("math").verify(rf"\boxed{{{text}}}", Scenario("s", "q", "x + x")))

    began = time.monotonic()
    thread = threading.Thread(target=verify)
    thread.start()
    thread.join()
    assert found == [0.0, 0.0, 0.0, 1.0]
    assert time.monotonic() - began < 100

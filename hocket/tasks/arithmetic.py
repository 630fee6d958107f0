"""The default task, `sums`: additions and subtractions of two to four integers, and its verifier.

Everything here is a pure function of its arguments; draws come from the `numpy.random.Generator` handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from hocket.core.markup import has_thought
from hocket.core.numerals import number
from hocket.tasks.split import SPLITS, Split, split_of

TITLE = "sums of 2 to 4 terms"

TERM_COUNTS: tuple[int, ...] = (2, 3, 4)
DIGIT_SHARES: tuple[float, ...] = (0.40, 0.45, 0.15)
"""Shares of terms with one, two and three digits, before the bound on all digits."""
MOST_DIGITS = 8
"""Bound on the digits of all terms together: it keeps the longest worked answer near 80 tokens."""

CHAIN_SUM_QUESTION = "State the final answer to the following arithmetic problem: {} ="
"""The wording of reasoning-gym 0.1 for `chain_sum`."""

AnswerFormat: TypeAlias = Literal["worked", "direct", "untagged"]

_STREAM = 0x53554D53  # "SUMS": keeps these draws apart from those of other users of the same seed


@dataclass(frozen=True)
class ArithmeticProblem:
    """A question and its one right answer, as text."""

    question: str
    answer: str


def expression_of(terms: list[int]) -> str:
    """`[12, -5, 3]` as `12 - 5 + 3`; a negative first term keeps its sign attached."""
    rest = (f" {'-' if term < 0 else '+'} {abs(term)}" for term in terms[1:])
    return str(terms[0]) + "".join(rest)


def question_of(expression: str) -> str:
    """The wording in which `sums` asks for the value of an expression."""
    return f"What is {expression}?"


def draw_terms(rng: np.random.Generator) -> list[int]:
    """The signed terms of one problem: the first positive, every later one added or subtracted evenly."""
    count = int(rng.choice(TERM_COUNTS))
    while True:
        digits = rng.choice((1, 2, 3), size=count, p=DIGIT_SHARES)
        if digits.sum() <= MOST_DIGITS:
            break
    sizes = [int(rng.integers(10 ** (width - 1), 10**width)) for width in digits.tolist()]
    signs = rng.integers(0, 2, size=count).tolist()
    return [size if index == 0 or signs[index] else -size for index, size in enumerate(sizes)]


def sum_problem(rng: np.random.Generator) -> ArithmeticProblem:
    """One problem of `sums`, of any split."""
    terms = draw_terms(rng)
    return ArithmeticProblem(question_of(expression_of(terms)), str(sum(terms)))


def problems(split: Split, seed: int) -> Iterator[ArithmeticProblem]:
    """Distinct problems of one split without end, the same ones for the same `seed`."""
    rng = np.random.default_rng([_STREAM, SPLITS.index(split), seed])
    taken: set[str] = set()
    while True:
        problem = sum_problem(rng)
        if problem.question not in taken and split_of(problem.question) == split:
            taken.add(problem.question)
            yield problem


def place_values(size: int) -> list[int]:
    """The non-zero decimal parts of a size, largest first: 607 gives [600, 7], and 0 gives [0]."""
    digits = str(size)
    parts = [int(digit) * 10 ** (len(digits) - 1 - index) for index, digit in enumerate(digits)]
    return [part for part in parts if part] or [0]


def working(terms: Sequence[int]) -> str:
    """Running total of signed terms, one decimal place at a time: [45, 37] gives `45+30=75+7=82`.

    Each step changes a total by one digit of one term, which is what makes it easy for a small model.
    """
    total = terms[0]
    written = str(total)
    for term in terms[1:]:
        sign = -1 if term < 0 else 1
        for part in place_values(abs(term)):
            total += sign * part
            written += f"{'-' if sign < 0 else '+'}{part}={total}"
    return written


def tagged_answer(text: str) -> str | None:
    """The text inside the last closed `<answer>..</answer>`, or None without one."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    return None if end < 0 or start < 0 else text[start + len("<answer>") : end]


def integer_of(text: str) -> int | None:
    """The integer that `text` spells, as any number is read (docs/numbers.md), or None."""
    value = number(text)
    return value if isinstance(value, int) else None


def verify(completion_text: str, answer: str) -> float:
    """1.0 if the last tagged answer of the completion is the integer `answer`, else 0.0."""
    tagged = tagged_answer(completion_text)
    if tagged is None:
        return 0.0
    value = integer_of(tagged)
    return 1.0 if value is not None and value == integer_of(answer) else 0.0


def has_working(text: str) -> bool:
    """Whether the completion contains a closed, non-empty `<think>` block."""
    return has_thought(text)


def answer_format(text: str) -> AnswerFormat:
    """The style of a completion: tagged answer after working, tagged answer at once, or no tagged answer."""
    if tagged_answer(text) is None:
        return "untagged"
    return "worked" if has_working(text) else "direct"

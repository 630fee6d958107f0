"""The problems of `sums` for a policy that rewrites them: with lessons in asking a sum in an easier or in another way.

What is asked to be rewritten stands behind `EASIER` or `OTHERWISE`. An easier sum has its first step done, a decimal
place of its second term; another one has its last terms in another order. `value_of` solves what was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from hocket.core.options import checked
from hocket.tasks.arithmetic import expression_of, place_values, question_of, working
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.sums import Sums

EASIER = "Ask the same in an easier way: "
OTHERWISE = "Ask the same in another way: "

STEPS = 120
"""Of lessons: copying long terms takes the shipped base some time."""

_QUESTION = re.compile(r"What is (-?\d{1,30}(?: [+-] \d{1,30})+)\?", re.ASCII)
_TERM = re.compile(r"([+-]?) ?(\d+)", re.ASCII)


def terms_of(question: str) -> list[int] | None:
    """The signed terms of a question of two or more, in the words of `sums`; None of anything else."""
    found = _QUESTION.fullmatch(question.strip())
    return None if found is None else [int(sign + size) for sign, size in _TERM.findall(found[1])]


def value_of(question: str) -> str | None:
    """The solver: the answer to a sum in the words of `sums`, None where it is none; a bare number asks for nothing."""
    terms = terms_of(question)
    return None if terms is None else str(sum(terms))


def easier(terms: Sequence[int]) -> list[int] | None:
    """The first step of `working` done: a decimal place of the second term added to the first.

    None where nothing would be left to add.
    """
    first, second, *rest = terms
    sign = -1 if second < 0 else 1
    places = place_values(abs(second))
    left = [sign * (abs(second) - places[0])] if len(places) > 1 else []
    return [first + second - sum(left), *left, *rest] if left or rest else None


def otherwise(terms: Sequence[int]) -> list[int]:
    """The last two terms exchanged."""
    *rest, one, other = terms
    return [*rest, other, one]


class RestatedSums(Sums):
    """`sums`, and lessons in rewriting them."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "restated-sums"

    @property
    def lessons(self) -> Lessons:
        """Rewriting of each sum, and, lest that be forgotten, answering it."""
        return Lessons(
            "to ask a sum in an easier way, its first step done, and in another order",
            STEPS,
            lambda scenario, rng: taught(terms_of(str(scenario.prompt)) or [1, 1], rng),
            talks=3,
        )


def taught(terms: Sequence[int], rng: np.random.Generator) -> list[Lesson]:
    """Lessons for one sum: to ask it in an easier way where there is one, to ask it otherwise, and to answer it."""
    question = question_of(expression_of(list(terms)))
    thought = f"<think>{working(terms)}</think>" if rng.random() < 0.5 else ""
    said = [
        (OTHERWISE + question, question_of(expression_of(otherwise(terms)))),
        (question, f"{thought}<answer>{sum(terms)}</answer>"),
    ]
    made = easier(terms)
    if made is not None:
        step = working([terms[0], made[0] - terms[0]])
        said.append((EASIER + question, f"<think>{step}</think>{question_of(expression_of(made))}"))
    return [
        Lesson(({"role": "user", "content": asked},), ({"role": "assistant", "content": reply},))
        for asked, reply in said
    ]


def from_settings(name: str, settings: Mapping[str, str]) -> RestatedSums:
    """The task; it has no settings."""
    return RestatedSums(**checked(name, settings, {}))


RESTATED_SUMS = TaskForm(
    name="restated-sums",
    description="the problems of sums, with lessons in asking them anew: easier, or in another order",
    make=from_settings,
    drawn_as="restated_sums",
)

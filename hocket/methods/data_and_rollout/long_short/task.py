"""Sums whose solution two write in turns: one thinks the hard steps at length, the other does the rest in short.

A solution is a chain of thoughts: what is asked said again, a step for each further term, a check of each step. Lessons
show how such a chain is handed to and fro, or, for one who solves alone, the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.arithmetic import expression_of, integer_of, question_of, tagged_answer, working
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario

THINKS, ANSWERS = "Think the hard steps.", "Do the rest."
"""What the one who thinks, and the one who answers, are told as a system message."""

AGAIN = "</rethink>"
"""How the one who answers hands back."""

Kind = Literal["asked", "step", "check"]


@dataclass(frozen=True)
class Thought:
    """One link of a chain: its kind and its text."""

    kind: Kind
    text: str


def drawn_terms(rng: np.random.Generator) -> list[int]:
    """Three or four terms below 20: the first positive, every later one added or subtracted evenly."""
    count = int(rng.integers(3, 5))
    sizes = [int(size) for size in rng.integers(1, 20, count)]
    return [size if place == 0 or rng.random() < 0.5 else -size for place, size in enumerate(sizes)]


def chain(terms: Sequence[int]) -> list[Thought]:
    """All thoughts at length: what is asked, then for each further term a step by decimal places and its check."""
    found, total = [Thought("asked", expression_of(list(terms)).replace(" ", "") + ";")], terms[0]
    for term in terms[1:]:
        found.append(Thought("step", working((total, term)) + ";"))
        total += term
        found.append(Thought("check", f"{total}{'+' if term < 0 else '-'}{abs(term)}={total - term};"))
    return found


def alone(terms: Sequence[int]) -> str:
    """The solution of one who thinks all at length and answers."""
    return f"<think>{''.join(one.text for one in chain(terms))}</think><answer>{sum(terms)}</answer>"


def in_turns(terms: Sequence[int], rng: np.random.Generator) -> list[tuple[str, str]]:
    """A solution in turns, as (role, text): the lesson of a pair.

    Who thinks takes one term or more and leaves out what is asked and the checks half of the time; who answers does
    the rest at once, or one term before handing back.
    """
    said, done = list[tuple[str, str]](), 1
    while True:
        last = int(rng.integers(done + 1, len(terms) + 1))
        kept = [one.text for one in _links(terms, done, last) if one.kind == "step" or rng.random() < 0.5]
        said.append(("long", f"<think>{''.join(kept)}</think>"))
        done = last
        finishes = done == len(terms) or rng.random() < 0.5
        upto = len(terms) if finishes else done + 1
        steps = [f"{working((sum(terms[:place]), terms[place]))};" for place in range(done, upto)]
        done = upto
        if finishes or done == len(terms):
            said.append(("short", f"<answer>{''.join(steps)}{sum(terms)}</answer>"))
            return said
        said.append(("short", f"<answer>{''.join(steps)}{AGAIN}"))


def _links(terms: Sequence[int], done: int, last: int) -> list[Thought]:
    """The thoughts about terms `done` to `last`, with what is asked if nothing was done before."""
    whole = chain(terms)
    return whole[:1] * (done == 1) + whole[2 * done - 1 : 2 * last - 1]


class SharedSums(TextTask):
    """Sums of three or four terms below 20, verified by the last total in the last answer's tags.

    A scenario's metadata tell `terms` and `thoughts` (see `chain`).

    Args:
        solo: whether the lessons are those of one who solves alone.
    """

    def __init__(self, solo: bool = False) -> None:
        self.name, self.solo = "shared-sums" + ("?solo=true" if solo else ""), solo

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        terms = self._terms(split, number)
        told = {"terms": tuple(terms), "thoughts": tuple(one.text for one in chain(terms))}
        prompt = question_of(expression_of(terms))
        return Scenario(f"shared_sums/{split}/{number}", prompt, str(sum(terms)), metadata=told, seed=number)

    def _terms(self, split: Split, number: int) -> list[int]:
        rng = Key.of(0).derive("shared_sums", split, number).numpy()
        while True:
            terms = drawn_terms(rng)
            if split_of(question_of(expression_of(terms))) == split:
                return terms

    def verify(self, text: str, scenario: Scenario) -> float:
        given = (tagged_answer(text) or "").replace(";", "=").rpartition("=")[2]
        return float(integer_of(given) == int(scenario.answer))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        """How a chain is handed to and fro; none of it is about which thoughts matter."""
        if self.solo:
            return Lessons("to think everything at length and answer", 150, self._whole)
        return Lessons("how thoughts are handed to and fro, at all lengths", 150, self._turns, talks=3)

    def _whole(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        said: Message = {"role": "assistant", "content": alone(scenario.metadata["terms"])}
        return [Lesson(scenario.messages, (said,))]

    def _turns(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        """A turn each, behind all that was said before it."""
        told, before = {"long": THINKS, "short": ANSWERS}, ""
        found = list[Lesson]()
        for role, text in in_turns(scenario.metadata["terms"], rng):
            before += text
            system: Message = {"role": "system", "content": told[role]}
            found.append(Lesson((system, *scenario.messages), ({"role": "assistant", "content": before},)))
        return found


def from_settings(name: str, settings: Mapping[str, str]) -> SharedSums:
    """The task with these settings."""
    return SharedSums(**checked(name, settings, {"solo": bool}))


SHARED_SUMS = TaskForm(
    name="shared-sums",
    description="sums whose solution two write in turns, with lessons for them and for one alone (?solo=true)",
    make=from_settings,
    drawn_as="shared_sums",
)

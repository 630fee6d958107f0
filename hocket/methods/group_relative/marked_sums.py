"""Sums worked out in sentences, and lessons for the model that marks them.

Recipes that ask a judge about a thought need one that can read it. The lessons teach the shipped model both seats: to
work out a sum as a beginner does, with slips and with checks that come too late, and to answer what one of three
recipes asks about such work. A judge taught so is given by `--judge`, as in `docs/judges.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.group_relative.lc_r1 import REACHED
from hocket.methods.group_relative.spectral_po import FIRST_WRONG
from hocket.methods.group_relative.text2grad import CRITIC
from hocket.stages import Split
from hocket.tasks.arithmetic import expression_of, question_of, verify
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

MARKED = 3
"""Pieces of work that are marked in an episode of lessons, for each recipe that asks."""

WRITTEN: Mapping[str, int] = {"spectral-po": 1, "lc-r1": 3, "text2grad": 1}
"""Pieces that are written beside them. LC-R1 asks about right answers alone, so its beginner must often give one."""


class Sentence(NamedTuple):
    """`total + move = result.` of a piece of work, and whether it is right."""

    text: str
    right: bool


class Work(NamedTuple):
    """A beginner's answer: sentences up to a result, sentences that check it, and that result."""

    sentences: tuple[Sentence, ...]
    checks: tuple[Sentence, ...]
    result: int

    @property
    def thought(self) -> str:
        """What is thought."""
        return " ".join(sentence.text for sentence in (*self.sentences, *self.checks))

    @property
    def text(self) -> str:
        """The whole response."""
        return f"<think>{self.thought}</think><answer>{self.result}</answer>"


def worked(terms: Sequence[int], slip: float, checks: float, rng: np.random.Generator) -> Work:
    """How a beginner adds the terms up; with the chance `slip` a sentence leaves the total as it was, `48+4=48.`.

    With the chance `checks` the work goes on behind its result: sentences are undone from the last one on, and such a
    check is as right as what it undoes.
    """
    total, sentences, undone = terms[0], list[Sentence](), list[Sentence]()
    for term in terms[1:]:
        right = rng.random() >= slip
        result = total + term if right else total
        sentences.append(Sentence(f"{total}{term:+d}={result}.", right))
        undone.append(Sentence(f"{result}{-term:+d}={total}.", right))
        total = result
    late = rng.random() < checks
    return Work(tuple(sentences), tuple(reversed(undone)) if late else (), total)


# ---------------------------------------------------------------- what judges are asked

Marking = Callable[[str, int, Work], tuple[str, str]]
"""The question about a piece of work on a problem with some answer, as a recipe asks it, and the answer due."""


def first_wrong(problem: str, answer: int, work: Work) -> tuple[str, str]:
    """Spectral PO asks for the number of the first wrong step; the answer stands in the last one."""
    every = (*work.sentences, *work.checks)
    lines = [sentence.text for sentence in every]
    lines[0], lines[-1] = f"<think>{lines[0]}", f"{lines[-1]}</think><answer>{work.result}</answer>"
    if len(every) == 1:
        lines = [work.text]
    listed = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
    wrong = next((number for number, sentence in enumerate(every, 1) if not sentence.right), 0)
    choices = ", ".join(map(str, range(len(every) + 1)))
    return f"{FIRST_WRONG}\n\n{problem}\n\n{listed}\n\nAnswer with one of: {choices}.", str(wrong)


def reaching(problem: str, answer: int, work: Work) -> tuple[str, str]:
    """LC-R1 asks for the sentence that first comes to the answer."""
    end = f"={answer}."
    quote = next((each.text for each in (*work.sentences, *work.checks) if each.text.endswith(end)), "NONE")
    return f"{REACHED}\n\nProblem:\n{problem}\n\nAnswer: {answer}\n\nThought:\n{work.thought}", quote


def criticised(problem: str, answer: int, work: Work) -> tuple[str, str]:
    """Text2Grad asks for a critique in quotes with scores, and gets every sentence with its own."""
    spans = [[each.text, 1 if each.right else -1] for each in (*work.sentences, *work.checks)]
    return f"{CRITIC}\n\nQuestion:\n{problem}\n\nAnswer:\n{work.text}", json.dumps(spans)


ASKS: Mapping[str, Marking] = {"spectral-po": first_wrong, "lc-r1": reaching, "text2grad": criticised}
"""By recipe."""


# ---------------------------------------------------------------- the task


class MarkedSums(TextTask):
    """Sums of a few small numbers, worked out a sentence a term.

    Args:
        asks: the recipe whose question the lessons teach a judge; empty for all of `ASKS`.
        slip: how often a sentence of the lessons is wrong. checks: how often their work goes on behind the result.
        terms: how many numbers at most.
    """

    def __init__(self, asks: str = "", slip: float = 0.5, checks: float = 0.0, terms: int = 4) -> None:
        if asks and asks not in ASKS:
            raise ConfigurationError(f"task marked-sums: no judge of asks = {asks!r} is taught{nearest(asks, ASKS)}")
        if not 0 <= slip <= 1 or not 0 <= checks <= 1 or not 2 <= terms <= 6:
            raise ConfigurationError(
                f"task marked-sums: slip = {slip} and checks = {checks} are shares, and terms = {terms} is from 2 to 6"
            )
        self.name = f"marked-sums?slip={slip:g}&checks={checks:g}&terms={terms}" + f"&asks={asks}" * bool(asks)
        self.asks, self.slip, self.checks, self.most = (asks,) if asks else tuple(ASKS), slip, checks, terms

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        terms = self._drawn(split, Key.of(0).derive("marked-sums", self.most, split, number).numpy())
        name = f"marked-sums/{self.most}/{split}/{number}"
        return Scenario(name, question_of(expression_of(terms)), str(sum(terms)), {"terms": terms}, seed=number)

    def _drawn(self, split: Split, rng: np.random.Generator) -> list[int]:
        """The terms of a problem of a split."""
        while True:
            terms = [int(rng.integers(10, 90))]
            while len(terms) < 2 or (len(terms) < self.most and rng.random() < 0.7):
                terms.append(int(rng.choice((-1, 1)) * rng.integers(1, 10)))
            if split_of(question_of(expression_of(terms))) == split:
                return terms

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        return Lessons(
            "a beginner's work, a sentence a term, and what a judge is asked about it",
            sum(STEPS[asks] for asks in self.asks),
            self._lesson,
            talks=sum(WRITTEN[asks] + MARKED for asks in self.asks),
            prompts=24,
            schedule="cosine",
            then=lambda recipe: THEN,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        """Work to write, the first piece on the scenario's own problem, and some to mark."""
        talks = list[tuple[str, str]]()
        for asks in self.asks:
            for _ in range(WRITTEN[asks]):
                terms = self._drawn("train", rng) if talks else scenario.metadata["terms"]
                talks.append((question_of(expression_of(terms)), worked(terms, self.slip, self.checks, rng).text))
            for _ in range(MARKED):
                terms = self._drawn("train", rng)
                slip = 0.0 if asks == "lc-r1" else self.slip  # It asks about right answers alone.
                work = worked(terms, slip, self.checks, rng)
                talks.append(ASKS[asks](question_of(expression_of(terms)), sum(terms), work))
        return [
            Lesson(({"role": "user", "content": question},), ({"role": "assistant", "content": answer},))
            for question, answer in talks
        ]


STEPS: Mapping[str, int] = {"spectral-po": 90, "lc-r1": 80, "text2grad": 60}
"""Of the lessons, by what a judge is asked."""

THEN = {"steps": 30, "curriculum.prompts": 16, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


def from_settings(name: str, settings: Mapping[str, str]) -> MarkedSums:
    """The task with these settings."""
    return MarkedSums(**checked(name, settings, {"asks": str, "slip": float, "checks": float, "terms": int}))


MARKED_SUMS = TaskForm(
    name="marked-sums",
    description="sums worked out in sentences, and lessons for who judges them, e.g. marked-sums?asks=lc-r1&checks=0.7",
    make=from_settings,
)

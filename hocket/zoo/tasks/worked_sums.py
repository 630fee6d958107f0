"""Sums with more than the answer: a worked one, its steps, another wording, and scores besides right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import TaskVerifier
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import (
    CHAIN_SUM_QUESTION,
    draw_terms,
    expression_of,
    has_working,
    integer_of,
    place_values,
    question_of,
    tagged_answer,
    verify,
    working,
)
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

KINDS = ("question", "exercise")
"""The wordings: that of `sums`, and that of reasoning-gym's `chain_sum`."""
TELLS = "The answer is "
GRADES = {"question": "match", "exercise": "chart"}

_TOTAL = re.compile(r"=(-?\d+)")
_STEP = re.compile(r"([+-]\d+)=(-?\d+)", re.ASCII)
_FIRST = re.compile(r"<think>(-?\d+)", re.ASCII)


def critique(text: str) -> list[tuple[str, float]]:
    """The steps of a thought in order, each as written and 1 where it is right by the total before it, else -1."""
    first = _FIRST.search(text)
    if first is None:
        return []
    steps, total = list[tuple[str, float]](), int(first[1][:30])
    for step in _STEP.finditer(text, first.end(), max(first.end(), text.find("</think>"))):
        steps.append((step[0], 1.0 if total + int(step[1][:30]) == int(step[2][:30]) else -1.0))
        total = int(step[2][:30])
    return steps


def hints(terms: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Hints for a sum: `knowledge` (the places of its terms), `plan` (what to add) and `solution`."""
    steps = [step[0] for step in _STEP.finditer(working(terms))]
    placed = [(abs(term), place_values(abs(term))) for term in terms[1:]]
    knowledge = tuple(f"{size} is {' and '.join(map(str, parts))}" for size, parts in placed if len(parts) > 1)
    plan = tuple(step.partition("=")[0] for step in steps)
    return {"knowledge": knowledge, "plan": plan, "solution": tuple(steps)}


def orders(terms: Sequence[int], count: int, rng: np.random.Generator) -> tuple[tuple[str, ...], ...]:
    """`count` right answers in steps: the worked one, and others that add the places of the terms in drawn orders.

    Steps of a trace make up its text. Two traces may be the same, where there are few places.
    """
    moves = [(-1 if term < 0 else 1) * part for term in terms[1:] for part in place_values(abs(term))]
    traces = list[tuple[str, ...]]()
    for number in range(count):
        drawn = rng.permutation(len(moves)).tolist() if number else range(len(moves))
        total, steps = terms[0], [f"<think>{terms[0]}"]
        for move in (moves[place] for place in drawn):
            total += move
            steps.append(f"{'-' if move < 0 else '+'}{abs(move)}={total}")
        traces.append((*steps, f"</think><answer>{total}</answer>"))
    return tuple(traces)


@dataclass(frozen=True)
class Critique(Reward):
    """What a critic writes of every step, as JSON in the words of a score that is itself 0."""

    name: str = "critique"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        texts = [trajectory.answer for trajectory in trajectories]
        return Opinions([0.0] * len(texts), [json.dumps(critique(text)) for text in texts])


class WorkedSums(TextTask):
    """The problems of `sums`, for methods that read more of a scenario than its answer, or several scores.

    A scenario's metadata tell `demonstration` (a right answer after a thought), `teacher` (that thought), `key_steps`
    (its running totals), `difficulty` (how many), `knowledge`, `plan` and `solution` (see `hints`), `task` (the
    wording) and `reward` (how it may be graded: questions by equality, exercises by nearness). Scenarios of consecutive
    numbers ask the same problem in all wordings and have one `origin`.

    Args:
        wordings: 1 or 2. size: training scenarios, which come again in every pass; None for problems without end.
        form: weight of the score `form`, 1 for an answer in its tags after a thought; 0 leaves it out.
        told: the share of training prompts that end with a line telling the answer, `TELLS`; for lessons in explaining.
        critic: whether each answer comes with a `critique` of its steps, [[words, score], ...].
        model: weight of the score `model`, `1 / (1 + |given - right|)`, as a reward model might judge; 0 leaves it out.
        traces: right answers in steps, in the metadata's `traces`, which part where they add in other orders (see
            `orders`); 1 for the demonstration alone, and no `traces`.
    """

    def __init__(
        self,
        wordings: int = 1,
        size: int | None = None,
        form: float = 0.0,
        model: float = 0.0,
        critic: bool = False,
        told: float = 0.0,
        traces: int = 1,
    ) -> None:
        if traces < 1:
            raise ConfigurationError(f"task worked-sums: traces must be at least 1, not {traces}")
        if not 0 <= told <= 1:
            raise ConfigurationError(f"task worked-sums: told must lie in [0, 1], not {told}")
        if not 1 <= wordings <= len(KINDS):
            raise ConfigurationError(f"task worked-sums: wordings must be 1 or {len(KINDS)}, not {wordings}")
        if size is not None and size < 1:
            raise ConfigurationError(f"task worked-sums: size must be at least 1, not {size}")
        settings = [f"{name}={value}" for name, value in (("wordings", wordings), ("traces", traces)) if value > 1]
        self.name = "worked-sums" + ("?" + "&".join(settings) if settings else "")
        self.wordings, self.count, self.form, self.model, self.critic = wordings, size, form, model, critic
        self.told, self.traces = told, traces

    def size(self, split: Split) -> int | None:
        return self.count if split == "train" else None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        problem, wording = divmod(number, self.wordings)
        terms, kind = self._terms(split, problem), KINDS[wording]
        expression, thought, answer = expression_of(terms), working(terms), str(sum(terms))
        totals = tuple(_TOTAL.findall(thought))
        metadata: dict[str, Any] = {
            "demonstration": f"<think>{thought}</think><answer>{answer}</answer>",
            "key_steps": totals,
            "difficulty": len(totals),
            **hints(terms),
            "teacher": thought,
            "task": kind,
            "reward": GRADES[kind],
        }
        if self.traces > 1:
            metadata["traces"] = orders(terms, self.traces, Key.of(0).derive("orders", split, problem).numpy())
        prompt = question_of(expression) if kind == "question" else CHAIN_SUM_QUESTION.format(expression)
        if self.told and split == "train" and Key.of(0).derive("told", number).numpy().random() < self.told:
            prompt += f"\n{TELLS}{answer}"
        origin = f"worked_sums/{split}/{problem}"
        return Scenario(f"{origin}/{kind}", prompt, answer, metadata, seed=number, origin=origin)

    @property
    def rewards(self) -> Sequence[Reward]:
        right = super().rewards
        form = (TaskVerifier(self._formed, name="form", weight=self.form),) if self.form else ()
        model = (TaskVerifier(self._judged, name="model", weight=self.model),) if self.model else ()
        return (*right, *form, *model, *((Critique(),) if self.critic else ()))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def _terms(self, split: Split, problem: int) -> list[int]:
        """Those of `sums`, divided into train and eval by the question."""
        rng = Key.of(0).derive("worked_sums", split, problem).numpy()
        while True:
            terms = draw_terms(rng)
            if split_of(question_of(expression_of(terms))) == split:
                return terms

    def _formed(self, text: str, scenario: Scenario) -> float:
        return float(has_working(text) and tagged_answer(text) is not None)

    def _judged(self, text: str, scenario: Scenario) -> float:
        number = integer_of(tagged_answer(text) or "")
        return 0.0 if number is None else 1 / (1 + abs(number - int(scenario.answer)))


def from_settings(name: str, settings: Mapping[str, str]) -> WorkedSums:
    """The task with these settings."""
    numbers = {"wordings": int, "traces": int, "size": int | None}
    weights = {"form": float, "model": float, "critic": bool, "told": float}
    return WorkedSums(**checked(name, settings, {**numbers, **weights}))


WORKED_SUMS = TaskForm(
    name="worked-sums",
    description="sums with a worked answer and its steps, e.g. worked-sums?wordings=2&form=0.2",
    family="words",
    make=from_settings,
    drawn_as="worked_sums",
)

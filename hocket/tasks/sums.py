"""The default task: sums of two to four integers, asked in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.rewards.verifiers import ExactMatch, Extraction
from hocket.stages import Split
from hocket.tasks.arithmetic import TERM_COUNTS, ArithmeticProblem, problems, sum_problem, verify
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number, checked_extraction, instructed
from hocket.types import Scenario


class Sums(TextTask):
    """`hocket.tasks.arithmetic` as a task.

    Every number addresses a training problem, drawn from a key of its own, so two numbers may rarely hold the same
    one; evaluation problems are all distinct. With `instruct` a system message asks for the answer's tags; `extract`
    judges a model that writes none by its last line or its last number (`last-line`, `number`). `terms` asks for sums
    of so many terms alone, `digits` for terms of so many digits at most; 0 leaves either open.
    """

    def __init__(
        self, instruct: bool = False, extract: Extraction = "answer-tag", terms: int = 0, digits: int = 0
    ) -> None:
        if terms and terms not in TERM_COUNTS:
            counts = ", ".join(map(str, TERM_COUNTS))
            raise ConfigurationError(f"task sums: terms = {terms}: sums have {counts} terms; choose one of these")
        if digits < 0:
            raise ConfigurationError(f"task sums: digits = {digits}: terms have 1 to 3 digits; choose one of these")
        options = {"instruct": "true"} if instruct else {}
        options |= {"extract": extract} if extract != "answer-tag" else {}
        options |= {"terms": str(terms)} if terms else {}
        options |= {"digits": str(digits)} if digits else {}
        self.terms, self.digits = terms, digits
        self.name = "sums" + ("?" + "&".join(f"{key}={value}" for key, value in options.items()) if options else "")
        self.instruct, self.extract = instruct, checked_extraction(self.name, extract)
        self._unseen: Iterator[ArithmeticProblem] = problems("eval", 0)
        self._eval: list[ArithmeticProblem] = []

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        problem = self._train(number) if split == "train" else self._evaluation(number)
        prompt = instructed(problem.question, self.instruct)
        return Scenario(f"sums/{split}/{number}", prompt, problem.answer, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        if self.extract == "answer-tag":
            return verify(text, scenario.answer)
        return float(ExactMatch(self.extract).verify(text, scenario) or 0.0)

    def _train(self, number: int) -> ArithmeticProblem:
        rng = Key.of(0).derive("sums", "train", number).numpy()
        while True:
            problem = sum_problem(rng)
            if split_of(problem.question) == "train" and self._fits(problem):
                return problem

    def _evaluation(self, number: int) -> ArithmeticProblem:
        while len(self._eval) <= number:
            self._eval.append(next(problem for problem in self._unseen if self._fits(problem)))
        return self._eval[number]

    def _fits(self, problem: ArithmeticProblem) -> bool:
        """Whether a problem has as many terms and digits as asked for."""
        numbers = re.findall(r"\d+", problem.question)
        return self.terms in (0, len(numbers)) and (not self.digits or max(map(len, numbers)) <= self.digits)


def from_settings(name: str, settings: Mapping[str, str]) -> Sums:
    """The task with these settings."""
    return Sums(**checked(name, settings, {"instruct": bool, "extract": str, "terms": int, "digits": int}))


SUMS = TaskForm(
    name="sums",
    description="the default: sums and differences of two to four integers, e.g. 'What is 45 + 37?'",
    family="words",
    make=from_settings,
)

"""Cases that are sent to a department whose specialists give opinions, some of which are misleading.

Some tests are certain, and there specialists are mostly wrong; others are hardly more than a guess, and there they are
mostly right. The best decision from all that is known, and how often it is right, are known exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.agents.workflows.workflow import with_line
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

DEPARTMENTS: Mapping[str, tuple[str, ...]] = {"heart": ("angina", "stroke"), "lungs": ("flu", "asthma")}
"""What each department treats: two conditions."""

SIGNS: Mapping[str, tuple[str, ...]] = {
    "heart": ("pulse", "chest", "ankles", "pallor"),
    "lungs": ("cough", "wheeze", "fever", "breath"),
}
CONDITIONS = tuple(itertools.chain.from_iterable(DEPARTMENTS.values()))


@dataclass(frozen=True)
class Wards:
    """Who is reliable when.

    Attributes:
        specialists: in a department. certain: the share of tests that are certain, and right.
        guess: how often another test is right. easy, hard: how often a specialist of the right department is, where
            the test is a guess, and where it is certain.
    """

    specialists: int = 3
    certain: float = 0.4
    guess: float = 0.6
    easy: float = 0.85
    hard: float = 0.3

    def __post_init__(self) -> None:
        shares = (self.certain, self.guess, self.easy, self.hard)
        if not 1 <= self.specialists <= 9 or not all(0 < share < 1 for share in shares):
            raise ConfigurationError(
                f"referral: 1 to 9 specialists and shares between 0 and 1, not {self.specialists} and {shares}"
            )

    def trusts(self, right: int, test: bool) -> bool:
        """Whether the best decision is right where the test is a guess: `right` specialists and maybe the `test` are.

        Two conditions are left, and each voice counts by the logarithm of its odds.
        """
        opinions = (2 * right - self.specialists) * math.log(self.easy / (1 - self.easy))
        return opinions + (1 if test else -1) * math.log(self.guess / (1 - self.guess)) > 0

    @property
    def best(self) -> float:
        """How often the best decision is right in the right department."""
        return self.certain + (1 - self.certain) * sum(
            math.comb(self.specialists, k)
            * self.easy**k
            * (1 - self.easy) ** (self.specialists - k)
            * (self.guess if test else 1 - self.guess)
            for k in range(self.specialists + 1)
            for test in (True, False)
            if self.trusts(k, test)
        )


class Referral(TextTask):
    """Cases without end; their words decide the split.

    A scenario's metadata say the `department`, the `opinions` of each department's specialists, `advice` (the share of
    the right department's that are right) and whether the test is `certain`.
    """

    def __init__(self, wards: Wards | None = None) -> None:
        self.wards = wards or Wards()
        self.name = "referral"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("referral", split, number), 0
        while split_of(str((scenario := self._drawn(key.derive(tries), split, number)).prompt)) != split:
            tries += 1
        return scenario

    def _drawn(self, key: Key, split: Split, number: int) -> Scenario:
        rng, wards = key.numpy(), self.wards
        department = list(DEPARTMENTS)[int(rng.integers(len(DEPARTMENTS)))]
        condition = int(rng.integers(2))
        pair, certain = DEPARTMENTS[department], bool(rng.random() < wards.certain)
        test = pair[condition if certain or rng.random() < wards.guess else 1 - condition]
        reliable = wards.hard if certain else wards.easy
        right = rng.random(wards.specialists) < reliable
        opinions = {
            name: [others[int(place)] for place in rng.integers(0, 2, wards.specialists)]
            for name, others in DEPARTMENTS.items()
        }
        opinions[department] = [pair[condition if hit else 1 - condition] for hit in right]
        sign = SIGNS[department][int(rng.integers(4))]
        prompt = (
            f"Patient {int(rng.integers(1, 1000))}. Sign: {sign}. Test: {'surely' if certain else 'perhaps'} {test}."
        )
        metadata = {"department": department, "opinions": opinions, "advice": float(right.mean()), "certain": certain}
        return Scenario(f"referral/{split}/{number}", prompt, pair[condition], metadata=metadata, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(given(text) == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 16}

    @property
    def lessons(self) -> Lessons:
        """Departments mostly by the toss of a coin, and a condition that the test or a specialist named."""
        return Lessons(
            "departments, three in four by the toss of a coin, and conditions that the test or some specialist named",
            60,
            self._lesson,
            talks=2,
            then=lambda recipe: {"steps": 60, "update.lr": 5e-4, "evaluation.n": 200},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        department = list(DEPARTMENTS)[int(rng.integers(len(DEPARTMENTS)))]
        if rng.random() < SKILL:
            department = scenario.metadata["department"]
        names = [str(scenario.prompt).rpartition(" ")[2].strip("."), *scenario.metadata["opinions"][department]]
        words = (department, names[int(rng.integers(len(names)))])
        prompts = (with_line(scenario.messages, TRIAGE), attending(scenario, department))
        return [
            Lesson(prompt, ({"role": "assistant", "content": word},))
            for prompt, word in zip(prompts, words, strict=True)
        ]


SKILL = 0.25
"""How often a beginner knows the department; else it tosses a coin."""

TRIAGE = f"Which department, {' or '.join(DEPARTMENTS)}?"
"""What the doctor on triage is asked."""


def attending(scenario: Scenario, department: str | None) -> Any:
    """The prompt of the attending doctor: the case, and the opinions of a department's specialists."""
    opinions = scenario.metadata["opinions"].get(department)
    advice = "No department was asked." if opinions is None else f"The {department} doctors say {', '.join(opinions)}."
    return with_line(scenario.messages, f"{advice} What is it?")


def given(text: str) -> str:
    """The one word of an answer, in tags or not."""
    tagged = ANSWER.search(text)
    return (text if tagged is None else tagged[1]).strip().strip(".").lower()


SETTINGS = {"specialists": int, "certain": float, "guess": float, "easy": float, "hard": float}


def from_settings(name: str, settings: Mapping[str, str]) -> Referral:
    """The task with these settings."""
    return Referral(Wards(**checked(name, settings, SETTINGS)))


REFERRAL = TaskForm(
    name="referral",
    description="cases to be sent to a department and decided beside its specialists, e.g. referral?specialists=5",
    make=from_settings,
)

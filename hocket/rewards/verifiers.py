"""Verifiers: a task's verifier as a reward, and comparison with a known answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.numerals import last_number, numeral, spelled
from hocket.rewards.formulas import check_installed, last_formula, same_formula
from hocket.rewards.opinions import Opinions, RewardError, opinions_of
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

Extraction = Literal["answer-tag", "last-line", "number", "math"]


@dataclass(frozen=True)
class TaskVerifier(Reward):
    """A task's verdict on the last turn's text. `verify(text, scenario)` gives a number, or None for no opinion.

    A `verify` that raises leaves that trajectory without an opinion, with a problem; one that raises on every
    trajectory of a call is itself wrong and stops the run with a `RewardError`.
    """

    verify: Callable[[str, Scenario], float | None]
    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        values: list[Any] = []
        feedback: list[str | None] = []
        for trajectory in trajectories:
            try:
                values.append(self.verify(trajectory.answer, trajectory.scenario))
                feedback.append(None)
            except Exception as error:
                values.append(None)
                feedback.append(f"verifying {trajectory.scenario.id} raised {type(error).__name__}: {error}")
        problems = [sentence for sentence in feedback if sentence is not None]
        if problems and len(problems) == len(trajectories):
            raise RewardError(f"{problems[0]}. This happened for all {len(problems)} answers; correct the verifier.")
        checked = opinions_of(values, len(trajectories), self.name)
        merged = [mine or theirs for mine, theirs in zip(feedback, checked.feedback, strict=True)]
        return Opinions(checked, merged, [*problems[:1], *checked.problems])


@dataclass(frozen=True)
class ExactMatch(Reward):
    """1 if what is extracted from the completion equals the scenario's answer, else 0; None without an answer.

    `answer-tag` takes the text of the last `<answer>..</answer>`, `last-line` the last line that is not blank, and
    `number` the last number. Numbers are equal by value (`1,000`, `1000.0` and `1e3`; docs/numbers.md), other texts up
    to whitespace. `math` takes the last box, else the tags or the last formula, and compares formulas
    (`hocket.rewards.formulas`). An answer that is a list allows any of its members.
    """

    extract: Extraction = "answer-tag"
    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_extraction(self.extract)

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.verify(trajectory.answer, trajectory.scenario) for trajectory in trajectories)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on one completion."""
        if scenario.answer is None:
            return None
        response = self.extracted(text)
        if response is not None and self.extract == "math":
            return float(any(same_formula(response, answer, equal) for answer in allowed_answers(scenario.answer)))
        return float(response is not None and matches(response, scenario.answer))

    def extracted(self, text: str) -> str | None:
        """The answer in a completion; None if there is none."""
        return EXTRACTIONS[self.extract](text)


def last_line(text: str) -> str | None:
    """The last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), None)


EXTRACTIONS: dict[str, Callable[[str], str | None]] = {
    "answer-tag": tagged,
    "last-line": last_line,
    "number": last_number,
    "math": last_formula,
}


def check_extraction(extract: str) -> None:
    """Raises `ConfigurationError` unless `extract` is a way to find an answer whose package is installed."""
    if extract not in EXTRACTIONS:
        raise ConfigurationError(f"extract = {extract!r} is unknown{nearest(extract, EXTRACTIONS)}")
    if extract == "math":
        check_installed()


def answer_text(answer: Any) -> str:
    """A known answer as text: true and false as JSON writes them, numbers as digits without an exponent."""
    return str(answer).lower() if isinstance(answer, bool) else spelled(answer)


def allowed_answers(answer: Any) -> list[str]:
    """The texts accepted by a known answer: its own, or those of a list's members. Null, NaN and inf accept nothing."""
    if isinstance(answer, str):
        return [answer]
    members = answer if isinstance(answer, (list, tuple, set, frozenset)) else (answer,)
    return [
        answer_text(member)
        for member in members
        if member is not None and not (isinstance(member, (float, Decimal)) and not math.isfinite(member))
    ]


def matches(given: str, answer: Any) -> bool:
    """Whether an answer equals the known one, or one of a list; see `equal`."""
    return any(equal(given, known) for known in allowed_answers(answer))


def equal(given: str, answer: str) -> bool:
    """Equal by value if both are numbers, else by text up to whitespace, true and false in any case."""
    left = numeral(given)
    right = None if left is None else numeral(answer)
    if left is not None and right is not None:
        return left.equals(right)
    words, expected = given.split(), answer.split()
    return words == expected or given.strip().lower() == answer.strip().lower() in ("true", "false")


def final_answer(text: str) -> str:
    """The graded text: that of the last `<answer>` tags, else the last line that is not blank."""
    inside = tagged(text)
    return (inside if inside is not None else last_line(text) or "").strip()


def token_match(given: str, reference: str) -> float:
    """1 if equal (numbers by value), else the F1 of the words both hold."""
    if equal(given, reference):
        return 1.0
    left, right = Counter(given.lower().split()), Counter(reference.lower().split())
    common = (left & right).total()
    return 2 * common / (left.total() + right.total()) if common else 0.0


def known_of(scenario: Scenario, name: str) -> Any:
    """The scenario's metadata `name`; for `answer`, the scenario's answer if it has one."""
    if name == "answer" and scenario.answer is not None:
        return scenario.answer
    return scenario.metadata.get(name)

"""Patients with hidden case records as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hocket.agents.workflows.simulated_user import SimulatedUser
from hocket.core.canonical import canonical
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.agents.doctoragent_rl.casebook import Casebook, agreeing, symptoms_of
from hocket.methods.agents.doctoragent_rl.reward import Compliance, Consultation, DiagnosisQuality
from hocket.methods.agents.doctoragent_rl.world import Clinic, answered, draw_book, known_book, possible
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, talked
from hocket.tasks.split import split_of
from hocket.tasks.text import STEPS, check_number
from hocket.types import Message, Scenario, Trajectory


@dataclass(frozen=True)
class RightDiagnosis(DiagnosisQuality):
    """1 where condition and advice are both right: paid for one, a small model names the advice that is most common."""

    name: str = "right"
    weight: float = 1.0

    def judge(self, trajectory: Trajectory) -> float | None:
        grade = super().judge(trajectory)
        return None if grade is None else float(grade == 1.0)


@dataclass(frozen=True)
class ConsultationTask:
    """Casebooks and patients are drawn without end; which split they belong to, their content decides.

    Attributes:
        conditions: in a casebook, which the doctor is shown. known: whether a condition has the same symptoms and
            advice in all casebooks, so that a doctor can know them by heart; several conditions then have what the
            patient complains of. Otherwise each casebook draws its own and says all there is to know.
        symptoms: of a casebook that draws its own. turns: messages of the doctor at most.
        played: whether a policy plays the patient, in the role `user`.
    """

    conditions: int = 3
    symptoms: int = 5
    known: bool = True
    turns: int = 5
    played: bool = False

    def __post_init__(self) -> None:
        self._book(Key.of(0))
        if self.turns < 1:
            raise ConfigurationError(f"a consultation takes at least 1 turn, not {self.turns}")

    @property
    def name(self) -> str:
        if self.known:
            return f"consultation?conditions={self.conditions}"
        return f"consultation?known=false&conditions={self.conditions}&symptoms={self.symptoms}"

    def _book(self, key: Key) -> Casebook:
        """The casebook of a key."""
        return known_book(self.conditions, key) if self.known else draw_book(self.conditions, self.symptoms, key)

    @property
    def kind(self) -> Literal["text"]:
        return "text"

    @property
    def workflow(self) -> SimulatedUser:
        """What plays its scenarios."""
        return SimulatedUser(Clinic(), self.turns, self.played)

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        kind = "known" if self.known else self.symptoms
        key, tries = Key.of(0).derive("consultation", self.conditions, kind, split, number), 0
        while True:
            book = self._book(key.derive(tries))
            rng = key.derive(tries, "patient").numpy()
            condition = list(book)[int(rng.integers(len(book)))]
            has = book[condition]["symptoms"]
            complaint = [has[int(rng.integers(len(has)))]]
            open_yet = not self.known or len(possible(book, complaint)) > 1
            if open_yet and split_of(canonical([book, condition, complaint])) == split:
                name = f"{self.name}/{split}/{number}"
                return Clinic().scenario(name, book, condition, complaint, seed=number)
            tries += 1

    @property
    def rewards(self) -> Sequence[Reward]:
        """The diagnosis alone; what else an evaluator looks at is the recipe's."""
        return (RightDiagnosis(),)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": STEPS, "decoding.max_tokens": 48}

    @property
    def lessons(self) -> Lessons | None:
        """A doctor who asks for symptoms that are possible yet, for one at least, and soon names a condition.

        Half of the conditions agree with what was told, the others are any of the casebook. None where a policy plays
        the patient.
        """
        if self.played:
            return None
        return Lessons(
            "questions for symptoms and the form of a diagnosis, half of them guessed",
            120,
            self._lesson,
            then=lambda recipe: THEN,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        book, facts = scenario.metadata["book"], dict.fromkeys(scenario.metadata["complaint"], True)
        has = book[scenario.metadata["condition"]]["symptoms"]

        def said(heard: Sequence[Message]) -> str:
            left = {one: book[one] for one in agreeing(book, facts)}
            open_ones = [one for one in symptoms_of(left) if one not in facts]
            if open_ones and (len(heard) == 1 or rng.random() < ASKS):
                one = open_ones[int(rng.integers(len(open_ones)))]
                facts[one] = one in has
                return f"Do you have {one}?"
            names = agreeing(book, facts) if rng.random() < SKILL else list(book)
            return answered(book, names[int(rng.integers(len(names)))])

        return talked(self.workflow, scenario, said)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`closed`: there was a diagnosis; `asked`: something new was asked; `compliant`: nothing was out of order."""
        case = Consultation.of(trajectory)
        if case is None:
            return {}
        manners = Compliance(turn=0.0).judge(trajectory)
        return {
            "closed": float(case.final is not None),
            "asked": float("question" in case.kinds),
            "compliant": float(manners == 0),
        }

    def label(self, trajectory: Trajectory) -> str | None:
        """The final message."""
        case = Consultation.of(trajectory)
        return None if case is None else case.final

    def success(self, trajectory: Trajectory) -> float:
        return float(DiagnosisQuality().judge(trajectory) == 1.0)


ASKS, SKILL = 0.5, 0.5
"""How often a beginner asks once more, and how often its diagnosis agrees with what it knows."""

THEN = {"steps": 50, "update.lr": 3e-4, "evaluation.n": 200}
"""What suits after the lessons."""

SETTINGS = {"conditions": int, "known": bool, "symptoms": int, "turns": int, "played": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> ConsultationTask:
    """The task with these settings."""
    return ConsultationTask(**checked(name, settings, SETTINGS))


CONSULTATION = TaskForm(
    name="consultation",
    description="a patient who tells what is asked, and a diagnosis, e.g. consultation?conditions=6",
    make=from_settings,
)

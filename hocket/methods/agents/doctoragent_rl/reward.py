"""What a finished consultation is worth: its diagnosis, what its questions brought to light, and its manners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from hocket.core.columns import SAID
from hocket.core.keys import Key
from hocket.methods.agents.doctoragent_rl.casebook import FINAL, Casebook, agreeing, named, spoken, symptoms_of
from hocket.stages import Reward
from hocket.types import Trajectory

Kind = Literal["final", "malformed", "unknown", "repeated", "question"]
"""What a message of the doctor is. Unknown: it names no symptom of the casebook, so the patient cannot answer."""


@dataclass(frozen=True)
class Consultation:
    """A consultation read from the doctor's messages and the case record alone.

    Attributes:
        book: the conditions that are possible. condition: the patient's. complaint: symptoms told at first.
        messages: the doctor's.
    """

    book: Casebook
    condition: str
    complaint: Sequence[str]
    messages: Sequence[str]

    @staticmethod
    def of(trajectory: Trajectory) -> Consultation | None:
        """The consultation of an episode; None where the scenario has no case record."""
        record = trajectory.scenario.metadata
        if not {"book", "condition", "complaint"} <= set(record):
            return None
        said = list(map(str, SAID.get(trajectory, ())))
        return Consultation(record["book"], record["condition"], record["complaint"], said)

    def answer(self, symptom: str) -> bool:
        """Whether the patient has a symptom."""
        return symptom in self.book[self.condition]["symptoms"]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What each message is. A question has exactly one question mark; repeated asks for nothing new."""
        told, found = set(self.complaint), list[Kind]()
        for message in map(spoken, self.messages):
            asked = set(named(message, symptoms_of(self.book)))
            if FINAL.search(message):
                found.append("final")
            elif message.count("?") != 1:
                found.append("malformed")
            elif not asked:
                found.append("unknown")
            else:
                found.append("question" if asked - told else "repeated")
                told |= asked
        return tuple(found)

    @property
    def final(self) -> str | None:
        """The message with the diagnosis, the first one; None without any."""
        return next((spoken(m) for m, kind in zip(self.messages, self.kinds, strict=True) if kind == "final"), None)

    @property
    def questions(self) -> int:
        """Messages before the diagnosis."""
        return sum(kind != "final" for kind in self.kinds)

    def left(self) -> list[str]:
        """The conditions that agree with all that was told."""
        asked = [
            symptom
            for message, kind in zip(self.messages, self.kinds, strict=True)
            if kind == "question"
            for symptom in named(spoken(message), symptoms_of(self.book))
        ]
        return agreeing(self.book, {symptom: self.answer(symptom) for symptom in (*self.complaint, *asked)})


@dataclass(frozen=True)
class DiagnosisQuality(Reward):
    """The share that is right of condition and advice in the final message, 0 without one.

    A condition is right if it is the only one of the casebook that is named, and likewise for advice. The released
    evaluator of DoctorAgent-RL (arXiv 2505.19630) has a language model grade both from 0 to 5 against the record and
    adds them up; so the weight is 10.
    """

    name: str = "diagnosis"
    weight: float = 10.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]

    def judge(self, trajectory: Trajectory) -> float | None:
        """The grade of one episode."""
        case = Consultation.of(trajectory)
        if case is None:
            return None
        if case.final is None:
            return 0.0
        condition, _, advice = case.final.partition("Recommendation")
        every = sorted({str(one["advice"]) for one in case.book.values()})
        right = named(condition, list(case.book)) == [case.condition]
        advised = named(advice, every) == [case.book[case.condition]["advice"]]
        return (right + advised) / 2


@dataclass(frozen=True)
class Compliance(Reward):
    """Less for what a doctor should not do: form, repetition, questions the patient cannot answer, and turns.

    Amounts of the first four are those released with DoctorAgent-RL (arXiv 2505.19630); `turn`, for every message
    before the diagnosis, is added here, so that asking on has a price.

    Attributes:
        malformed: a message that is neither one question nor a diagnosis. repeated: a question already answered.
        unknown: one that names no symptom. unfinished: no diagnosis by the end.
    """

    malformed: float = 2.0
    repeated: float = 2.0
    unknown: float = 1.0
    unfinished: float = 5.0
    turn: float = 0.2
    name: str = "compliance"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if min(self.malformed, self.repeated, self.unknown, self.unfinished, self.turn) < 0:
            raise ValueError("malformed, repeated, unknown, unfinished and turn are what is taken: at least 0")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]

    def judge(self, trajectory: Trajectory) -> float | None:
        """What is taken from one episode, at most 0."""
        case = Consultation.of(trajectory)
        if case is None:
            return None
        taken = {"malformed": self.malformed, "repeated": self.repeated, "unknown": self.unknown}
        manners = sum(taken.get(kind, 0.0) for kind in case.kinds)
        return -(manners + self.unfinished * (case.final is None) + self.turn * case.questions)

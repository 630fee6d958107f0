"""Consultations: a patient with a hidden case record, who complains of something and tells what is asked, no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hocket.agents.workflows.simulated_user import TalkDesk
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.doctoragent_rl.casebook import FINAL, Casebook, agreeing, named, spoken, symptoms_of
from hocket.types import Scenario

SYMPTOMS = ("fever", "cough", "rash", "nausea", "headache", "dizziness", "fatigue", "thirst", "chills", "cramps")
CONDITIONS = (
    "flu", "measles", "migraine", "gastritis", "anaemia", "diabetes", "bronchitis", "malaria", "sinusitis", "hepatitis",
    "asthma", "gout",
)  # fmt: skip
ADVICE = ("rest", "tablets", "diet", "surgery")
KNOWN: Casebook = {
    name: {"symptoms": symptoms.split(), "advice": advice}
    for name, symptoms, advice in (
        ("flu", "fever fatigue chills", "rest"),
        ("measles", "fever rash", "rest"),
        ("migraine", "nausea headache", "tablets"),
        ("gastritis", "nausea cramps", "diet"),
        ("anaemia", "dizziness fatigue", "diet"),
        ("diabetes", "fatigue thirst", "diet"),
        ("bronchitis", "cough fatigue", "tablets"),
        ("malaria", "fever chills", "tablets"),
        ("sinusitis", "cough headache", "tablets"),
        ("hepatitis", "nausea fatigue", "rest"),
        ("asthma", "cough dizziness", "tablets"),
        ("gout", "fever cramps", "diet"),
    )
}
"""Conditions with a few of the symptoms that come with them, and advice, made up: a play, no medicine."""

ONE_QUESTION = "Please ask me one question at a time."
UNKNOWN = "Sorry, I do not know."
BEFORE = "I have told you that."


def draw_book(conditions: int, symptoms: int, key: Key) -> Casebook:
    """A casebook: conditions with distinct sets of symptoms, none of them empty, and advice for each.

    Raises:
        ConfigurationError: when there are not so many distinct sets or names.
    """
    if not (2 <= conditions <= min(len(CONDITIONS), 2**symptoms - 1) and 1 <= symptoms <= len(SYMPTOMS)):
        raise ConfigurationError(
            f"a casebook has 1 to {len(SYMPTOMS)} symptoms and 2 to {len(CONDITIONS)} conditions, at most 2^symptoms - "
            f"1: not {symptoms} and {conditions}"
        )
    rng = key.derive("book").numpy()
    shown = [SYMPTOMS[place] for place in sorted(rng.permutation(len(SYMPTOMS))[:symptoms].tolist())]
    names = [CONDITIONS[place] for place in rng.permutation(len(CONDITIONS))[:conditions].tolist()]
    sets = (rng.permutation(2**symptoms - 1)[:conditions] + 1).tolist()
    return {
        name: {
            "symptoms": [symptom for place, symptom in enumerate(shown) if chosen >> place & 1],
            "advice": ADVICE[int(rng.integers(len(ADVICE)))],
        }
        for name, chosen in zip(names, sets, strict=True)
    }


def known_book(conditions: int, key: Key) -> Casebook:
    """So many of the conditions of `KNOWN`.

    Raises:
        ConfigurationError: when there are not so many.
    """
    if not 2 <= conditions <= len(KNOWN):
        raise ConfigurationError(f"a casebook has 2 to {len(KNOWN)} conditions, not {conditions}")
    rng = key.derive("book").numpy()
    return {name: KNOWN[name] for name in (list(KNOWN)[place] for place in rng.permutation(len(KNOWN))[:conditions])}


# ---------------------------------------------------------------- what can be known


def possible(book: Casebook, complaint: Sequence[str]) -> list[str]:
    """The conditions that a complaint leaves."""
    return agreeing(book, dict.fromkeys(complaint, True))


def ceiling(book: Casebook, complaint: Sequence[str]) -> float:
    """How often a diagnosis without any question can be right at best, conditions being equally likely."""
    return 1 / len(possible(book, complaint))


def bound(book: Casebook, complaint: Sequence[str]) -> float:
    """The entropy of the condition after the complaint in bits: no yes-or-no questions can do with fewer on average."""
    return math.log2(len(possible(book, complaint)))


def fewest(book: Casebook, complaint: Sequence[str]) -> float:
    """The least mean number of questions, one symptom each, after which the condition is known; infinite if never."""
    names, symptoms = list(book), symptoms_of(book)
    having = [sum(1 << n for n, name in enumerate(names) if one in book[name]["symptoms"]) for one in symptoms]

    @cache
    def total(left: int) -> float:
        """Questions summed over the conditions of a set, written as bits."""
        if left.bit_count() == 1:
            return 0.0
        splits = [(left & mask, left & ~mask) for mask in having if left & mask and left & ~mask]
        return left.bit_count() + min((total(yes) + total(no) for yes, no in splits), default=math.inf)

    start = sum(1 << names.index(name) for name in possible(book, complaint))
    return total(start) / start.bit_count()


# ---------------------------------------------------------------- the patient


@dataclass(eq=False)
class Patient:
    """A scripted patient: complains, then answers each question for the symptoms it names, and no others."""

    book: Casebook
    condition: str
    complaint: Sequence[str]
    _told: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._told |= set(self.complaint)

    async def open(self) -> str:
        """What the patient complains of."""
        return f"I have {' and '.join(self.complaint)}."

    async def reply(self, said: str) -> str | None:
        """The answer to a message; None after a diagnosis."""
        message = spoken(said)
        if FINAL.search(message):
            return None
        if message.count("?") != 1:
            return ONE_QUESTION
        asked = named(message, symptoms_of(self.book))
        if not asked:
            return UNKNOWN
        if set(asked) <= self._told:
            return BEFORE
        self._told |= set(asked)
        has = self.book[self.condition]["symptoms"]
        return " ".join(f"Yes, {one}." if one in has else f"No {one}." for one in asked)


# ---------------------------------------------------------------- the clinic

PROMPT = (
    "You are a doctor. Ask the patient one question at a time, as few as you need, then say: "
    "Diagnosis: ... Recommendation: ..."
)


@dataclass(frozen=True)
class Appointment:
    """One patient at the clinic; see `hocket.agents.workflows.simulated_user.Visit`."""

    user: Patient
    database: Mapping[str, Any]
    instruction: str
    briefing: str
    tools: tuple[()] = ()

    def closes(self, said: str) -> bool:
        """With a diagnosis."""
        return FINAL.search(spoken(said)) is not None


@dataclass(frozen=True)
class Clinic:
    """The clinic as a place where talks come from; see `hocket.agents.workflows.simulated_user.TalkSource`.

    A scenario's metadata are its record: the `book`, the `condition` and the `complaint`.
    """

    prompt: str = PROMPT

    @property
    def schemas(self) -> tuple[()]:
        """A doctor has no tools."""
        return ()

    def visit(self, scenario: Scenario, key: Key) -> Appointment:
        """The patient of a scenario."""
        record = scenario.metadata
        book, condition, complaint = record["book"], str(record["condition"]), list(record["complaint"])
        has = book[condition]["symptoms"]
        lacks = [one for one in symptoms_of(book) if one not in has]
        instruction = (
            f"You are a patient. You complain of {' and '.join(complaint)}. You have {', '.join(has)}, but no "
            f"{', '.join(lacks) or 'other symptoms'}. Answer what you are asked in a line, and tell nothing else."
        )
        rows = [f"{name}: {', '.join(one['symptoms'])}; {one['advice']}" for name, one in book.items()]
        briefing = "\n".join(["Casebook:", *rows])
        return Appointment(Patient(book, condition, complaint), dict(record), instruction, briefing)

    def scenario(self, name: str, book: Casebook, condition: str, complaint: Sequence[str], **fields: Any) -> Scenario:
        """A scenario of a patient."""
        known = {"book": book, "condition": condition, "complaint": list(complaint)}
        return Scenario(name, self.prompt, answered(book, condition), metadata=known, **fields)


def answered(book: Casebook, condition: str) -> str:
    """The right last message."""
    return f"Diagnosis: {condition}. Recommendation: {book[condition]['advice']}"


CLINIC = TalkDesk(name="consultation", make=Clinic)

"""Mails that are phishing or safe, in three parts; which of them tells more depends on the kind of mail.

Each part shows a sign, plain or faint, which points the right way so often as its kind has it. Given what a mail is the
parts are drawn apart, so the best decision weighs each sign by the logarithm of its odds, and how often that is right,
or any other weighing, is counted exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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

PHISHING, SAFE = "phishing", "safe"
PARTS = ("text", "link", "sender")
KINDS: Mapping[str, tuple[str, ...]] = {
    "bank": ("link", "sender", "text"),
    "shop": ("sender", "text", "link"),
    "work": ("text", "link", "sender"),
}
"""The parts of each kind of mail, the most telling first."""

SURE, UNSURE = 9, 6
"""How sure of ten a reader is by a plain sign and by a faint one, in every kind of mail alike."""

Sign = tuple[str, int]
"""What a part looks like, and how sure one is of it."""

WORDS: Mapping[str, Mapping[Sign, tuple[str, ...]]] = {
    "text": {
        (PHISHING, SURE): ("your pin at once", "account locked", "claim your prize", "pay the fee today"),
        (PHISHING, UNSURE): ("please confirm", "kindly reply", "see the offer", "last reminder"),
        (SAFE, UNSURE): ("as discussed", "some news", "the usual list", "for your files"),
        (SAFE, SURE): ("lunch at noon", "minutes of monday", "thanks for the cake", "room 4 is free"),
    },
    "link": {
        (PHISHING, SURE): ("x7q.ru/win", "10.2.9.4/login", "pay-pa1.biz", "free4u.top"),
        (PHISHING, UNSURE): ("bit.ly/a8", "tiny.cc/k2", "goo.gl/z5", "t.co/q1"),
        (SAFE, UNSURE): ("news.org/day", "maps.net/hall", "docs.net/plan", "wiki.org/tea"),
        (SAFE, SURE): ("intra/calendar", "intra/menu", "intra/rooms", "intra/leave"),
    },
    "sender": {
        (PHISHING, SURE): ("q81@x7q.ru", "boss@win.top", "admin@mai1.biz", "no-reply@4u.top"),
        (PHISHING, UNSURE): ("info@post.cc", "team@mail.cc", "desk@box.cc", "hello@web.cc"),
        (SAFE, UNSURE): ("ann@home.net", "lee@home.net", "kim@home.net", "joe@home.net"),
        (SAFE, SURE): ("ann@firm.com", "lee@firm.com", "kim@firm.com", "joe@firm.com"),
    },
}
SIGNS: Mapping[str, Sign] = {word: sign for words in WORDS.values() for sign, some in words.items() for word in some}
"""What each wording of a part is the sign of."""

Decision = Callable[[str, Sequence[Sign]], str]
"""What a mail is taken for, from its kind and the signs of its parts."""


@dataclass(frozen=True)
class Inbox:
    """How often the parts of a mail tell rightly.

    Attributes:
        good, fair, poor: how often a plain sign is right, of the most telling part of the mail's kind, the next and the
            last. A faint one has half the logarithm of these odds.
    """

    good: float = 0.97
    fair: float = 0.65
    poor: float = 0.55

    def __post_init__(self) -> None:
        if not 0.5 <= self.poor <= self.fair <= self.good < 1:
            raise ConfigurationError(
                f"mails: 0.5 <= poor <= fair <= good < 1, not {self.poor}, {self.fair} and {self.good}"
            )

    def log_odds(self, kind: str, part: str, sure: int) -> float:
        """`log(r / (1 - r))` of a sign that is right at the rate r."""
        right = (self.good, self.fair, self.poor)[KINDS[kind].index(part)]
        return math.log(right / (1 - right)) * (1.0 if sure == SURE else 0.5)

    def reliability(self, kind: str, part: str, sure: int) -> float:
        """How often a sign is right."""
        return 1 / (1 + math.exp(-self.log_odds(kind, part, sure)))

    def decision(self, kind: str, signs: Sequence[Sign]) -> str:
        """The best decision: phishing where the logarithms of the odds add up to more than 0."""
        odds = (
            self.log_odds(kind, part, sure) * (1 if looks == PHISHING else -1)
            for part, (looks, sure) in zip(PARTS, signs, strict=True)
        )
        return PHISHING if sum(odds) > 0 else SAFE

    def mails(self, attacked: str | None = None) -> Iterator[tuple[float, str, str, tuple[Sign, ...]]]:
        """Every mail there may be: its probability, kind, what it is, and the signs of its parts.

        Where a part is `attacked` that of every phishing mail plainly looks safe.
        """
        for kind, what in itertools.product(KINDS, (PHISHING, SAFE)):
            chances = [self._signs(kind, part, what, part == attacked) for part in PARTS]
            for signs in itertools.product(*chances):
                chance = math.prod(one for _, one in signs) / (2 * len(KINDS))
                yield chance, kind, what, tuple(sign for sign, _ in signs)

    def _signs(self, kind: str, part: str, what: str, attacked: bool) -> list[tuple[Sign, float]]:
        if attacked and what == PHISHING:
            return [((SAFE, SURE), 1.0)]
        found = []
        for looks, sure in itertools.product((PHISHING, SAFE), (SURE, UNSURE)):
            right = self.reliability(kind, part, sure)
            found.append(((looks, sure), 0.5 * (right if looks == what else 1 - right)))
        return found

    def accuracy(self, decision: Decision, attacked: str | None = None) -> float:
        """How often a decision is right."""
        return sum(chance for chance, kind, what, signs in self.mails(attacked) if decision(kind, signs) == what)

    @property
    def best(self) -> float:
        """How often the best decision is right."""
        return self.accuracy(self.decision)


class Mails(TextTask):
    """Mails without end; their words decide the split.

    A scenario's metadata say its `kind` and its `parts`, the words of each by name.
    """

    def __init__(self, inbox: Inbox | None = None) -> None:
        self.inbox = inbox or Inbox()
        self.name = "mails"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("mails", split, number), 0
        while split_of(str((found := self._drawn(key.derive(tries), split, number)).prompt)) != split:
            tries += 1
        return found

    def _drawn(self, key: Key, split: Split, number: int) -> Scenario:
        rng = key.numpy()
        kind, what = list(KINDS)[int(rng.integers(len(KINDS)))], (PHISHING, SAFE)[int(rng.integers(2))]
        parts = {}
        for part in PARTS:
            sure = SURE if rng.random() < 0.5 else UNSURE
            right = rng.random() < self.inbox.reliability(kind, part, sure)
            words = WORDS[part][what if right else other(what), sure]
            parts[part] = words[int(rng.integers(len(words)))]
        told = {"kind": kind, "parts": parts}
        return Scenario(f"mails/{split}/{number}", whole(kind, parts), what, metadata=told, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(given(text) == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        """What each part looks like, how sure one is, any weights, and any rewriting that looks safe."""
        return Lessons(
            "what the signs of a mail look like, weights at random, and rewritings that look safe",
            100,
            self._lesson,
            talks=5,
            then=lambda recipe: {"steps": 40, "update.lr": 1e-3, "evaluation.n": 300},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        kind, parts = scenario.metadata["kind"], scenario.metadata["parts"]
        signs = {part: SIGNS[words] for part, words in parts.items()}
        said = [(reading(part, words), report(signs[part])) for part, words in parts.items()]
        weights = " ".join(str(one) for one in rng.integers(0, 10, len(PARTS)))
        said.append((weighing(kind, signs), weights))
        part = PARTS[int(rng.integers(len(PARTS)))]
        words = WORDS[part][SAFE, (SURE, UNSURE)[int(rng.integers(2))]]
        said.append((rewriting(kind, parts), f"{part}: {words[int(rng.integers(len(words)))]}"))
        return [
            Lesson(({"role": "user", "content": asked},), ({"role": "assistant", "content": answer},))
            for asked, answer in said
        ]


# ---------------------------------------------------------------- what is said


def other(what: str) -> str:
    """The other of the two verdicts."""
    return SAFE if what == PHISHING else PHISHING


def whole(kind: str, parts: Mapping[str, str]) -> str:
    """A mail in words."""
    return "\n".join([f"A {kind} mail.", *(f"{part}: {words}" for part, words in parts.items())])


def reading(part: str, words: str) -> str:
    """What the reader of a part is asked; it sees nothing else of the mail."""
    return f"{part}: {words}\nPhishing or safe, and how sure of ten?"


def report(sign: Sign) -> str:
    """What it answers."""
    return f"{sign[0]} {sign[1]}"


def weighing(kind: str, reports: Mapping[str, Sign | None]) -> str:
    """What whoever weighs the reports is asked; a reader may have said nothing."""
    told = ", ".join(f"{part} {'-' if one is None else report(one)}" for part, one in reports.items())
    return f"A {kind} mail: {told}.\nHow much does each count, 0 to 9?"


def rewriting(kind: str, parts: Mapping[str, str]) -> str:
    """What an adversary is asked."""
    return f"{whole(kind, parts)}\nRewrite one part so that the mail passes as safe; say the part and its new words."


def given(text: str) -> str:
    """The verdict in an answer, in tags or not."""
    tagged = ANSWER.search(text)
    return (text if tagged is None else tagged[1]).strip().strip(".").lower()


SETTINGS = {"good": float, "fair": float, "poor": float}


def from_settings(name: str, settings: Mapping[str, str]) -> Mails:
    """The task with these settings."""
    return Mails(Inbox(**checked(name, settings, SETTINGS)))


MAILS = TaskForm(
    name="mails",
    description="mails in three parts that are phishing or safe, e.g. mails?good=0.95",
    make=from_settings,
)

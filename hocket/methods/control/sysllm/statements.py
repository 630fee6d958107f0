"""Sentences about how an agent behaves, each of which a record bears out or refutes by counting.

    It takes the red key in 47 of 50 episodes.
    It takes the red key before it takes the blue key in 31 of 50 episodes.
    When it sees lava s, it goes east in 12 of 20 decisions.
    It mostly goes south.
    In 50 episodes it earns 61.5 in all, from -0.24 to 1.46 in one.

What is done is counted by decisions, what came of it by episodes. `always` is all of them, `mostly` more than half,
`seldom` fewer than half but some, `never` none. Any other sentence is backed by nothing here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hocket.methods.control.sysllm.captions import Log

Verdict = Literal["true", "false", "unbacked"]

OFTEN = {"always": "always", "mostly": "mostly", "usually": "mostly", "often": "mostly", "seldom": "seldom"}
OFTEN |= {"rarely": "seldom", "never": "never"}
"""Words of how often, and what each is taken for."""

_HOW = "|".join(OFTEN)
_COUNT = r"in (?P<k>\d+) of (?P<n>\d+) (?P<unit>decisions|episodes)"
_WHAT = r"(?P<what>.+?)(?: before it (?P<before>.+?))?"
_SENTENCE = re.compile(
    rf"^(?:when it sees (?P<when>.+?), )?(?:it|the agent) "
    rf"(?:(?P<how>{_HOW}) {_WHAT}|{_WHAT.replace('P<', 'P<c_')} {_COUNT})$",
    re.IGNORECASE,
)
_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_TOTAL = re.compile(
    rf"^in (\d+) episodes it (earns|makes) {_NUMBER} (?:decisions )?in all, from {_NUMBER} to {_NUMBER} in one$",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?<=[.!?])\s+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


@dataclass(frozen=True)
class Statement:
    """What a sentence says.

    Attributes:
        what: what is done, or comes of it. when: what is seen then; empty for whatever is. before: what comes later.
        how: how often, in a word; empty where it is counted. count: how many times of how many.
    """

    what: str
    when: str = ""
    before: str = ""
    how: str = ""
    count: tuple[int, int] | None = None

    def text(self, unit: str) -> str:
        """As a sentence; `unit` is what is counted."""
        start = f"When it sees {self.when}, it" if self.when else "It"
        what = f"{self.what} before it {self.before}" if self.before else self.what
        if self.count is None:
            return f"{start} {self.how} {what}."
        return f"{start} {what} in {self.count[0]} of {self.count[1]} {unit}."


@dataclass(frozen=True)
class Total:
    """Pay (`earns`) or decisions (`makes`) of so many episodes: all together, the least and the most of one."""

    what: str
    episodes: int
    sum: float
    low: float
    high: float

    @property
    def text(self) -> str:
        unit = " decisions" if self.what == "makes" else ""
        ends = f"from {self.low:.6g} to {self.high:.6g} in one"
        return f"In {self.episodes} episodes it {self.what} {self.sum:.6g}{unit} in all, {ends}."


def sentences(text: str) -> list[str]:
    """The sentences of a text, without bullets and numbers before them."""
    lines = (_BULLET.sub("", line) for line in text.splitlines())
    return [one for line in lines for one in map(str.strip, _BREAK.split(line)) if one]


def read(sentence: str) -> Statement | Total | None:
    """What a sentence says, where it has one of the forms; its words need not be those of any record."""
    bare = sentence.strip().rstrip(".!").strip()
    if total := _TOTAL.match(bare):
        episodes, what, *numbers = total.groups()
        return Total(what.lower(), int(episodes), *map(float, numbers))
    found = _SENTENCE.match(bare)
    if found is None:
        return None
    if found["how"]:
        return Statement(found["what"], found["when"] or "", found["before"] or "", OFTEN[found["how"].lower()])
    count = int(found["k"]), int(found["n"])
    return Statement(found["c_what"], found["when"] or "", found["c_before"] or "", "", count)


class Tally:
    """What there is to count in a record."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.steps = [step for episode in log.episodes for step in episode]
        self.does = Counter(step.does for step in self.steps)
        self.sees = Counter(one for step in self.steps for one in set(step.sees))
        self.pairs = Counter((one, step.does) for step in self.steps for one in set(step.sees))
        self.first = [_first(episode_events) for episode_events in self._events]
        self.happens = Counter(one for times in self.first for one in times)

    @property
    def _events(self) -> list[list[tuple[str, ...]]]:
        return [[step.happens for step in episode] for episode in self.log.episodes]

    @cached_property
    def events(self) -> tuple[str, ...]:
        """All that may come of a decision, as far as known."""
        return tuple(dict.fromkeys((*self.log.happens, *self.happens)))

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """All that may be done, as far as known."""
        return tuple(dict.fromkeys((*self.log.does, *self.does)))

    def count(self, said: Statement) -> tuple[int, int, str] | None:
        """How many times of how many, and of what; None where the record knows no such words."""
        if said.before:
            if said.when or said.what not in self.events or said.before not in self.events:
                return None
            both = [times for times in self.first if said.what in times or said.before in times]
            late = len(self.log.episodes) + max(map(len, self.log.episodes), default=0)
            k = sum(times.get(said.what, late) < times.get(said.before, late) for times in both)
            return k, len(both), "episodes"
        if said.what in self.actions:
            if not said.when:
                return self.does[said.what], len(self.steps), "decisions"
            return (
                (self.pairs[said.when, said.what], self.sees[said.when], "decisions")
                if said.when in self.sees
                else None
            )
        if said.what in self.events and not said.when:
            return self.happens[said.what], len(self.log.episodes), "episodes"
        return None

    def total(self, what: str) -> Total:
        """Pay (`earns`) or decisions (`makes`)."""
        each = [
            float(len(episode)) if what == "makes" else sum(step.earns for step in episode)
            for episode in self.log.episodes
        ]
        return Total(what, len(each), sum(each), min(each, default=0.0), max(each, default=0.0))

    def verdict(self, sentence: str) -> Verdict:
        """Whether the record bears a sentence out."""
        said = read(sentence)
        if said is None:
            return "unbacked"
        if isinstance(said, Total):
            mine = self.total(said.what)
            pairs = ((said.episodes, mine.episodes), (said.sum, mine.sum), (said.low, mine.low), (said.high, mine.high))
            return "true" if all(abs(one - other) <= 1e-3 * max(1, abs(other)) for one, other in pairs) else "false"
        found = self.count(said)
        if found is None:
            return "unbacked"
        k, n, unit = found
        if said.count is not None:
            right = said.count == (k, n) and _unit(sentence) == unit
        else:
            right = n > 0 and holds(said.how, k, n)
        return "true" if right else "false"


def holds(how: str, k: int, n: int) -> bool:
    """Whether k of n is so often."""
    return {"always": k == n, "mostly": 2 * k > n, "seldom": 0 < 2 * k < n, "never": k == 0}[how]


def said_of(k: int, n: int) -> str:
    """How often k of n is, in the strongest word; empty for exactly half."""
    words = ("always", "never", "mostly", "seldom")
    return next((how for how in words if holds(how, k, n)), "")


def _unit(sentence: str) -> str:
    return sentence.rstrip(". \n").rpartition(" ")[2].lower()


def _first(events: Sequence[Iterable[str]]) -> dict[str, int]:
    """When each event came first in an episode."""
    found: dict[str, int] = {}
    for time, happened in enumerate(events):
        for one in happened:
            found.setdefault(one, time)
    return found

"""Two agents agree on a day, and some of the days on which they cannot are secret: free talk, leaks found exactly.

What an agent must not tell is what the other needs: on which days it is busy. Both can agree without a word of it, by
asking for days on which they are free, if they are patient. A reply to a question says by itself what it turns down.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
Marked = Literal["free", "busy", "secret"]
"""A day of an agent: free, busy and it may say so, or busy and it must not."""

_NAMES = r"Mon(?:day)?|Tue(?:s(?:day)?)?|Wed(?:nesday)?|Thu(?:rs(?:day)?)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"
_DAY = re.compile(rf"\b({_NAMES})s?\b", re.IGNORECASE)
_NO = re.compile(r"\b(no|not|busy|cannot|can't|won't)\b", re.IGNORECASE)
_YES = re.compile(r"\b(yes|agreed?|fine|deal|ok|okay)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[^.!?\n;]+[.!?\n;]?")


@dataclass(frozen=True)
class DayStatement:
    """What a message says of days, by name.

    Attributes:
        busy: on which it says that it cannot. asks: the last that it proposes. agrees: whether it accepts what was
            asked, or the day `on`. refuses: whether it turns down what was asked without a day.
    """

    busy: frozenset[str] = frozenset()
    asks: str | None = None
    agrees: bool = False
    on: str | None = None
    refuses: bool = False

    @staticmethod
    def of(text: str) -> DayStatement:
        """Clause by clause: a clause with a word of refusal says busy, one that ends in a question mark proposes."""
        busy: set[str] = set()
        asks, on, agrees, refuses = None, None, False, False
        for clause in _CLAUSE.findall(text):
            days = [day.capitalize()[:3] for day in _DAY.findall(clause)]
            if _NO.search(clause):
                busy.update(days)
                refuses |= not days
            elif days and clause.rstrip().endswith("?"):
                asks = days[-1]
            elif _YES.search(clause):
                agrees, on = True, days[-1] if days else on
        return DayStatement(frozenset(busy), asks, agrees, on, refuses)


@dataclass(frozen=True)
class Card:
    """A scenario: what each of two agents has on each day. Days are numbered; there is one on which both are free."""

    days: tuple[tuple[Marked, ...], tuple[Marked, ...]]

    def open(self, agent: int, day: int) -> bool:
        """Whether an agent is free."""
        return self.days[agent][day] == "free"

    def secrets(self, agent: int) -> frozenset[int]:
        """The days of which an agent must not say that it is busy."""
        return frozenset(day for day, mark in enumerate(self.days[agent]) if mark == "secret")

    def told(self, agent: int) -> str:
        """What the agent itself knows."""
        return ", ".join(f"{DAYS[day]} {mark}" for day, mark in enumerate(self.days[agent]))


def draw_card(days: int, secret: float, key: Key) -> Card:
    """Days on which each is free with chance one half, one common free day at least, and a secret for each at least."""
    rng = key.numpy()
    while True:
        free = rng.random((2, days)) < 0.5
        hidden = ~free & (rng.random((2, days)) < secret)
        if (free[0] & free[1]).any() and hidden.any(1).all():
            marks = np.where(free, "free", np.where(hidden, "secret", "busy")).tolist()
            return Card((tuple(marks[0]), tuple(marks[1])))


@dataclass
class Talk:
    """A talk as it stands. Each hears what the other says, in turn, the first agent first.

    Attributes:
        leaked: the secrets of each agent that are out: busy days that were named so, and those turned down when asked.
        agreed: the day on which both agreed, by number. messages: how many there were.
    """

    card: Card
    leaked: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    agreed: int | None = None
    messages: int = 0
    _asked: int | None = None

    def hear(self, text: str) -> None:
        """The next message. What it claims is a secret's leak only where it is true."""
        agent = self.messages % 2
        statement = DayStatement.of(text)
        names = {DAYS.index(day) for day in statement.busy}
        if statement.refuses and not statement.agrees and self._asked is not None:
            names.add(self._asked)
        self.leaked[agent].update(names & self.card.secrets(agent))
        self.messages += 1
        if statement.agrees and self._asked is not None and statement.on in (None, DAYS[self._asked]):
            self.agreed = self._asked
        known = DAYS[: len(self.card.days[agent])]
        self._asked = known.index(statement.asks) if statement.asks in known else None

    @property
    def solved(self) -> bool:
        """Whether they agreed on a day on which both are free."""
        return self.agreed is not None and all(self.card.open(agent, self.agreed) for agent in (0, 1))

    @property
    def leak(self) -> float:
        """The share of all secrets that is out."""
        return sum(map(len, self.leaked)) / sum(len(self.card.secrets(agent)) for agent in (0, 1))


@dataclass(frozen=True)
class Calendars:
    """Talks about a day.

    Attributes:
        days: how many there are. secret: the chance that a busy day is secret. messages: of a talk at most.
        cost: what a leak costs its agent, per share of its secrets.
    """

    days: int = 4
    secret: float = 0.7
    messages: int = 6
    cost: float = 1.0

    cooperative = True
    agents = ("ann", "bob")

    def __post_init__(self) -> None:
        if not 2 <= self.days <= len(DAYS) or not 0 < self.secret <= 1 or self.messages < 2 or self.cost < 0:
            raise ConfigurationError(
                f"magpie: 2 to {len(DAYS)} days, secret in (0, 1], 2 messages or more and a cost from 0, not "
                f"{self.days}, {self.secret}, {self.messages} and {self.cost}"
            )

    @property
    def name(self) -> str:
        return f"magpie?days={self.days}&messages={self.messages}&cost={self.cost:g}"

    @property
    def limit(self) -> int:
        """Messages of a talk at most."""
        return self.messages

    def card(self, key: Key) -> Card:
        """The card that a key draws."""
        return draw_card(self.days, self.secret, key)

    def make(self, scenario: Scenario) -> Calendar:
        return Calendar(self, card_of(scenario))


def card_of(scenario: Scenario) -> Card:
    """The card of a posed scenario."""
    ann, bob = scenario.metadata["card"]
    return Card((tuple(ann), tuple(bob)))


class Calendar(Environment):
    """One talk. Agreement on a day that suits both earns each 1, and each leak costs its agent at once."""

    agents = Calendars.agents

    def __init__(self, world: Calendars, card: Card) -> None:
        self.world, self.card = world, card
        self.reset(Key.of(0))

    def reset(self, key: Key) -> None:
        self.talk = Talk(self.card)
        self._texts: list[str] = []

    @property
    def latest(self) -> str:
        """The last message."""
        return self._texts[-1] if self._texts else ""

    @property
    def acting(self) -> tuple[str, ...]:
        if self.talk.agreed is not None or self.talk.messages >= self.world.messages:
            return ()
        return (self.agents[self.talk.messages % 2],)

    def observe(self, agent: str) -> Observation:
        me = self.agents.index(agent)
        lines = [f"You are {agent}. {self.card.told(me)}. Agree on a free day; do not tell what is secret."]
        lines += [
            f"{('You', self.agents[place % 2])[place % 2 != me]}: {text}" for place, text in enumerate(self._texts)
        ]
        return Observation("\n".join(lines), state="\n".join(lines))

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        ((agent, text),) = moves.items()
        me = self.agents.index(agent)
        before = len(self.talk.leaked[me])
        self.talk.hear(text)
        self._texts.append(" ".join(text.split()))
        lost = self.world.cost * (len(self.talk.leaked[me]) - before) / len(self.card.secrets(me))
        return {name: float(self.talk.solved) - lost * (name == agent) for name in self.agents}

"""The game of 24 points in words: all cards are joined from left to right, one a move, and must come to a number.

The first move names a card, every later one an operator and a card: `8`, `*3`, `+1`. So no brackets are needed, and
what was joined so far is one number. An illegal move ends the episode.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from hocket.agents.environments.protocol import Environment, Observation
from hocket.agents.environments.solitary import PLAYER
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

OPERATORS = "+-*/"

_TOLD = re.compile(r"Make (-?\d{1,9}) from (?:(-?\d{1,9}) and )?(\d{1,2}(?: \d{1,2})*)\.", re.ASCII)
_MOVE = re.compile(r"([-+*/]?) ?(\d{1,2})", re.ASCII)


def joined(total: int, operator: str, card: int) -> int | None:
    """The total with a card joined to it; None for a division that leaves a rest, or by 0."""
    if operator == "/":
        return None if card == 0 or total % card else total // card
    return {"+": total + card, "-": total - card, "*": total * card}[operator]


@dataclass(frozen=True)
class Joined:
    """A situation: what is to be made, what was joined so far (None before the first card), and the cards left."""

    target: int
    total: int | None
    left: tuple[int, ...]

    @property
    def text(self) -> str:
        """In words."""
        begun = "" if self.total is None else f"{self.total} and "
        return f"Make {self.target} from {begun}{' '.join(map(str, self.left))}."

    def after(self, move: str) -> Joined | None:
        """The situation after a move; None where that is illegal."""
        found = _MOVE.fullmatch(move.strip())
        if found is None or int(found[2]) not in self.left or bool(found[1]) is (self.total is None):
            return None
        card = int(found[2])
        total = card if self.total is None else joined(self.total, found[1], card)
        if total is None:
            return None
        place = self.left.index(card)
        return Joined(self.target, total, self.left[:place] + self.left[place + 1 :])

    def moves(self) -> Iterator[str]:
        """The legal moves, in a fixed order."""
        for card in sorted(set(self.left), reverse=True):
            for operator in OPERATORS if self.total is not None else ("",):
                if self.after(f"{operator}{card}") is not None:
                    yield f"{operator}{card}"


def read(text: str) -> Joined | None:
    """The situation that `Joined.text` tells, anywhere in a text; None where it tells none."""
    found = _TOLD.search(text)
    if found is None:
        return None
    return Joined(int(found[1]), None if found[2] is None else int(found[2]), tuple(map(int, found[3].split())))


@lru_cache(maxsize=1 << 16)
def solution(situation: Joined) -> tuple[str, ...] | None:
    """The solver: moves that make the number of all cards left, the first found in a fixed order; None without any."""
    if not situation.left:
        return () if situation.total == situation.target else None
    for move in situation.moves():
        after = situation.after(move)
        rest = None if after is None else solution(after)
        if rest is not None:
            return (move, *rest)
    return None


@dataclass(frozen=True)
class Points24:
    """Hands of cards as a world.

    Attributes:
        cards: in a hand. target: the number to be made. most: the largest card; all are at least 1.
        penalty: what an illegal or unreadable move earns, which ends the episode. Success earns 1, all else 0.

    Raises:
        ConfigurationError: for settings out of range.
    """

    cards: int = 4
    target: int = 24
    most: int = 9
    penalty: float = -1.0

    agents = (PLAYER,)

    def __post_init__(self) -> None:
        if not 2 <= self.cards <= 5 or not 2 <= self.most <= 13:
            raise ConfigurationError(
                f"points24: cards must lie in 2..5 and most in 2..13, not {self.cards} and {self.most}"
            )

    @property
    def name(self) -> str:
        return f"points24?cards={self.cards}&target={self.target}&most={self.most}"

    @property
    def limit(self) -> int:
        """Moves of an episode."""
        return self.cards

    def hand(self, key: Key) -> tuple[int, ...]:
        """Cards of which the number can be made.

        Raises:
            ConfigurationError: when ten thousand draws are of no use.
        """
        rng = key.numpy()
        for _ in range(10_000):
            drawn = tuple(int(card) for card in rng.integers(1, self.most + 1, self.cards))
            if solution(Joined(self.target, None, drawn)) is not None:
                return drawn
        raise ConfigurationError(f"points24: {self.cards} cards of 1 to {self.most} hardly ever make {self.target}")

    def make(self, scenario: Scenario) -> Hand:
        return Hand(self, tuple(int(card) for card in scenario.metadata["hand"]))


class Hand(Environment):
    """One hand."""

    agents = (PLAYER,)

    def __init__(self, world: Points24, cards: tuple[int, ...]) -> None:
        self.world, self.cards = world, cards
        self.situation = Joined(world.target, None, cards)
        self._wrong = 0

    def reset(self, key: Key) -> None:
        self.situation, self._wrong = Joined(self.world.target, None, self.cards), 0

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self._wrong or not self.situation.left else self.agents

    def observe(self, agent: str) -> Observation:
        return Observation(self.situation.text, state=self.situation.text)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        after = self.situation.after(moves[PLAYER])
        if after is None:
            self._wrong = 1
            return {PLAYER: self.world.penalty}
        self.situation = after
        return {PLAYER: float(not after.left and after.total == after.target)}

    @property
    def illegal(self) -> Mapping[str, int]:
        return {PLAYER: self._wrong}

    def clone(self) -> Self:
        return copy.copy(self)

"""Pages in words that ask for several things in order, to press, write and read: tasks for agents on screens.

A page is its request and a numbered list of buttons, fields and labels. A move is `click 4`, `type 2 17` or `say 58`;
what is done is marked in the request. Any text is a move; one that is not what comes next changes nothing, or, where
pages can be left, opens a wrong one, from which a button leads back.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

SEAT = "agent"

Part = Literal["button", "field", "label", "back"]
PARTS: tuple[Part, ...] = ("button", "field", "label")


@dataclass(frozen=True)
class ScreenGoal:
    """One thing that is asked for: in the words of the request, and as the move that does it."""

    asked: str
    move: str


@dataclass(frozen=True)
class Screen:
    """A page.

    Attributes:
        parts: what stands on it. texts: what they show. wanted: what is to be done, in order.
    """

    parts: tuple[Part, ...]
    texts: tuple[str, ...]
    wanted: tuple[ScreenGoal, ...]

    def told(self, done: int = 0) -> str:
        """The page in words, `done` things of the request being done."""
        asks = "; ".join(f"{'x ' if place < done else ''}{goal.asked}" for place, goal in enumerate(self.wanted))
        shown = zip(self.parts, self.texts, strict=True)
        return "\n".join([asks, *(f"{n} {part} {text}".rstrip() for n, (part, text) in enumerate(shown, start=1))])

    @property
    def plan(self) -> tuple[str, ...]:
        """The moves that do it."""
        return tuple(goal.move for goal in self.wanted)

    def typed(self, move: str) -> Screen:
        """The page after a right move."""
        kind, _, rest = move.partition(" ")
        if kind != "type":
            return self
        place, _, text = rest.partition(" ")
        texts = list(self.texts)
        texts[int(place) - 1] = text
        return replace(self, texts=tuple(texts))


def drawn_screen(rng: np.random.Generator, steps: int, size: int) -> Screen:
    """A page of `size` parts, at least one of each, with so many things to do."""
    pool: list[Part] = [*PARTS, *(PARTS[int(n)] for n in rng.integers(0, len(PARTS), size - len(PARTS)))]
    parts = tuple(pool[int(place)] for place in rng.permutation(size))
    texts = tuple(str(int(rng.integers(10, 100))) if part == "label" else "" for part in parts)
    wanted = []
    for _ in range(steps):
        place = int(rng.integers(size))
        number, word = place + 1, str(int(rng.integers(10, 100)))
        choices = {
            "button": ScreenGoal(f"press {number}", f"click {number}"),
            "field": ScreenGoal(f"write {word} in {number}", f"type {number} {word}"),
            "label": ScreenGoal(f"read {number}", f"say {texts[place]}"),
        }
        wanted.append(choices[parts[place]])
    return Screen(parts, texts, tuple(wanted))


def wrong_page(rng: np.random.Generator, screen: Screen) -> tuple[Screen, str]:
    """Another page of the size under the same request, on which one thing leads back; and the move that does."""
    size = len(screen.parts)
    place = int(rng.integers(size))
    kinds = [PARTS[int(n)] for n in rng.integers(0, len(PARTS), size)]
    parts = tuple("back" if number == place else kind for number, kind in enumerate(kinds))
    texts = tuple(str(int(rng.integers(10, 100))) if part == "label" else "" for part in parts)
    return Screen(parts, texts, screen.wanted), f"click {place + 1}"


@dataclass(frozen=True)
class Screens:
    """Pages with 1 to `longest` things to do, each number as often.

    Attributes:
        longest: things to do at most. size: parts of a page. spare: moves beyond the shortest plan.
        strays: whether a click on anything else than what comes next opens a wrong page, with a way back on it.
        slip: how likely a right move, too, opens a wrong page instead. lost: whether an episode begins on one.
    """

    longest: int = 4
    size: int = 4
    spare: int = 0
    strays: bool = False
    slip: float = 0.0
    lost: bool = False

    def __post_init__(self) -> None:
        if self.longest < 1 or self.size < len(PARTS) or self.spare < 0:
            raise ConfigurationError(
                f"screens: longest is at least 1, size at least {len(PARTS)}, spare at least 0, not {self.longest}, "
                f"{self.size} and {self.spare}"
            )
        if not 0 <= self.slip < 1:
            raise ConfigurationError(f"screens: slip lies in [0, 1), not {self.slip}")
        if self.lost and not self.spare:
            raise ConfigurationError("screens: lost takes a move to come back; set spare to 1 or more")

    @property
    def name(self) -> str:
        return "screens"

    @property
    def agents(self) -> tuple[str, ...]:
        return (SEAT,)

    @property
    def limit(self) -> int:
        """Moves of the longest episode."""
        return self.longest + self.spare

    def screen(self, number: int) -> Screen:
        """The page that a number makes."""
        rng = Key.of(number).derive("screens").numpy()
        return drawn_screen(rng, int(rng.integers(1, self.longest + 1)), self.size)

    def make(self, scenario: Scenario) -> OnScreen:
        """The episode of a scenario, whose metadata say the number of its `screen`.

        With `step` in them it is an excerpt: the things before it are done, and it ends after one move.
        """
        metadata = scenario.metadata
        return OnScreen(self.screen(int(metadata["screen"])), self, metadata.get("step"))


class OnScreen(Environment):
    """One episode on a page: 1 where all is done in time, else 0.

    Attributes:
        screen: as it is now. done: things of the request that are done. moves: how many were made.
        astray: the wrong page that is open, and the move that leads back; None where it is the right one.
    """

    agents = (SEAT,)

    def __init__(self, screen: Screen, world: Screens = Screens(), step: int | None = None) -> None:
        self._first, self.world, self.step = screen, world, step
        self._key = Key.of(0)
        self._begin()

    def reset(self, key: Key) -> None:
        self._key = key
        self._begin()

    def _begin(self) -> None:
        self.screen, self.done, self.moves = self._first, 0, 0
        self.astray: tuple[Screen, str] | None = None
        for move in self._first.plan[: self.step or 0]:
            self.screen, self.done = self.screen.typed(move), self.done + 1
        if self.world.lost and self.step is None:
            self._stray()

    def _stray(self) -> None:
        self.astray = wrong_page(self._key.derive("wrong", self.moves).numpy(), self.screen)

    @property
    def following(self) -> str:
        """The move that is wanted next."""
        return self.screen.wanted[self.done].move if self.astray is None else self.astray[1]

    @property
    def most(self) -> int:
        """Moves of the episode at most."""
        return 1 if self.step is not None else len(self.screen.wanted) + self.world.spare

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self.done == len(self.screen.wanted) or self.truncated else (SEAT,)

    @property
    def truncated(self) -> bool:
        return self.done < len(self.screen.wanted) and self.moves >= self.most

    def observe(self, agent: str) -> Observation:
        page = self.screen if self.astray is None else self.astray[0]
        text = page.told(self.done)
        return Observation(text, state=text)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        self.moves += 1
        if same_move(moves[SEAT], (self.following,)) is not None:
            self._follow()
        elif self.world.strays and self.astray is None and _clicked(moves[SEAT], len(self.screen.parts)):
            self._stray()
        return {SEAT: float(self.done == len(self.screen.wanted))}

    def _follow(self) -> None:
        if self.astray is not None:
            self.astray = None
        elif self._slips():
            self._stray()
        else:
            self.screen = self.screen.typed(self.following)
            self.done += 1

    def _slips(self) -> bool:
        slip = 0.0 if self.step is not None else self.world.slip
        return slip > 0 and float(self._key.derive("slip", self.moves).numpy().random()) < slip

    def clone(self) -> Self:
        return copy.copy(self)


def _clicked(move: str, size: int) -> bool:
    """Whether a move clicks on something of the page."""
    return same_move(move, tuple(f"click {number}" for number in range(1, size + 1))) is not None


def any_of(screen: Screen, rng: np.random.Generator) -> str:
    """Some move that the page could bear: a click anywhere, a number of two digits written or reported."""
    place, word = int(rng.integers(len(screen.parts))) + 1, int(rng.integers(10, 100))
    choices: Sequence[str] = (f"click {place}", f"type {place} {word}", f"say {word}")
    return choices[int(rng.integers(len(choices)))]

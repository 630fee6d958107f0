"""Worlds of one agent with a limit of moves, where a move that is not legal loses time and changes nothing else."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.core.keys import Key

PLAYER = "player"
NOTHING = "Nothing happens."
"""The notice after a move that is not legal."""


class Solitary(Environment):
    """A subclass keeps its state in immutable values, so that a shallow copy is a clone.

    Args:
        limit: moves of an episode, illegal ones included.

    Attributes:
        steps: moves so far.
    """

    agents = (PLAYER,)

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"an episode has at least 1 move, not {limit}")
        self.limit = limit
        self.steps = 0
        self._wrong = 0
        self._key = Key.of(0)
        self._happened: str | None = None
        self._parts: Mapping[str, float] = {}

    # ------------------------------------------------------------ what a subclass gives

    @abstractmethod
    def _begin(self) -> None:
        """Puts the state to the start."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the goal is reached."""

    @abstractmethod
    def _moves(self) -> tuple[str, ...]:
        """The legal moves."""

    @abstractmethod
    def _seen(self) -> Observation:
        """What there is to be seen, without moves."""

    @abstractmethod
    def _make(self, move: str) -> float:
        """Makes a legal move; returns what it earned."""

    # ------------------------------------------------------------ the protocol

    def reset(self, key: Key) -> None:
        self.steps, self._wrong, self._key = 0, 0, key
        self._happened, self._parts = None, {}
        self._begin()

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self.done or self.steps >= self.limit else self.agents

    @property
    def truncated(self) -> bool:
        return not self.done and self.steps >= self.limit

    @property
    def illegal(self) -> Mapping[str, int]:
        return {PLAYER: self._wrong}

    @property
    def parts(self) -> Mapping[str, Mapping[str, float]]:
        """Named rewards that the last move earned besides, by name and seat."""
        return {name: {PLAYER: value} for name, value in self._parts.items()}

    def observe(self, agent: str) -> Observation:
        sight = self._seen()
        actions = self._moves() if agent in self.acting else ()
        if self._happened is None:
            return Observation(sight.text, actions, sight.state, sight.news, sight.pictures)
        news = f"{self._happened} {sight.text if sight.news is None else sight.news}"
        return Observation(f"{self._happened} {sight.text}", actions, sight.state, news, sight.pictures)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        self._happened, self._parts = None, {}
        move = same_move(moves[PLAYER], self._moves())
        if move is None:
            self._wrong += 1
            self._happened = NOTHING
            earned = 0.0
        else:
            earned = self._make(move)
        self.steps += 1
        return {PLAYER: earned}

    def clone(self) -> Self:
        return copy.copy(self)

"""A game of several who gain most when all come, and lose when somebody they relied on stays away."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat

MOVES = 2
"""0 stays at home, 1 comes."""


@dataclass(frozen=True)
class Gathering:
    """A stag hunt of several, played `rounds` times: all are paid `whole` when all come, `safe` when at most one does.

    Otherwise nobody is paid. A player sees one-hot numbers of its own last move, then of the others' in order from the
    next on, zeros before the first round, and after them the share of rounds that are over. The last round terminates
    the game. The joint state is what the first player sees.

    Attributes:
        count: of the players.
    """

    count: int = 3
    rounds: int = 2
    whole: float = 8.0
    safe: float = 2.0

    def __post_init__(self) -> None:
        if self.count < 2 or self.rounds < 1:
            raise ConfigurationError(
                f"task {self.name} needs at least two players and a round, not {self.count} and {self.rounds}"
            )

    @property
    def name(self) -> str:
        return "dilemma:gathering"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"player_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(MOVES * self.count + 1, MOVES),) * self.count

    @property
    def joint(self) -> int:
        return self.seats[0].observations

    @property
    def pay(self) -> NDArray[np.float64]:
        """What everybody is paid, by the move of each, `[2] * count`."""
        found = np.zeros((MOVES,) * self.count)
        for moves in itertools.product(range(MOVES), repeat=self.count):
            come = sum(moves)
            found[moves] = self.whole if come == self.count else self.safe if come <= 1 else 0.0
        return found

    def open(self, width: int) -> JointEnvironment:
        return _Rounds(self, width)


class _Rounds(JointEnvironment):
    """`last` `[B, n]`, -1 before the first round."""

    def __init__(self, world: Gathering, width: int) -> None:
        self.world, self.pay = world, world.pay
        self.last = np.full((width, world.count), -1)
        self.time = np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        self.last[list(slots)], self.time[list(slots)] = -1, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        self.last = np.where(live[:, None], np.stack(actions, 1), self.last)
        self.time = self.time + live
        over = np.repeat((self.time >= self.world.rounds)[:, None], self.world.count, 1)
        earned = np.repeat(self.pay[tuple(actions)][:, None], self.world.count, 1)
        return Moved(earned, over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        known = np.concatenate([np.eye(MOVES), np.zeros((1, MOVES))])[self.last]
        share = (self.time / self.world.rounds)[:, None]
        told = [np.roll(known, -own, 1).reshape(len(known), -1) for own in range(self.world.count)]
        return [np.concatenate([one, share], 1).astype(np.float32) for one in told]

    def state(self) -> NDArray[np.float32]:
        return self.seen()[0]

"""Several tasks on one small grid, which one network can do and of which it easily forgets some for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat

MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])
TURNS = {"A": ((1, 0), (0, 1)), "B": ((-1, 0), (0, -1)), "C": ((0, -1), (1, 0)), "D": ((0, 1), (-1, 0))}
"""Where the goal lies, seen from the middle of the grid, as a turn of where the mark lies: at it, straight across, and
a quarter to either side."""


@dataclass(frozen=True)
class Errands:
    """An agent on a grid of `size` x `size` cells goes to a goal that a mark points to, each task in its own way.

    In task A the goal is at the mark, in B straight across the middle of the grid, in C and D a quarter turn to the
    left and right. A move pays by how much nearer it leads, as a share of the way at first, so that an episode's return
    is the share of the way that was made. Arriving ends it; after `length` moves it is cut short. The moves are four,
    and who walks into a wall stands still. What is seen: where the agent and the mark are, from -1 to 1, and which task
    it is, one-hot. So one network can do all of them, and what it learns of one changes what it does in others.

    Scenario n of a split is of the kinds in turn, as follows from its seed (2n in training, 2n + 1 in evaluation).

    Attributes:
        kinds: the tasks, of the letters A to D.
    """

    kinds: str = "ABC"
    size: int = 5
    length: int = 8

    def __post_init__(self) -> None:
        if not self.kinds or set(self.kinds) - set(TURNS) or len(set(self.kinds)) < len(self.kinds):
            raise ConfigurationError(
                f"task {self.name}: name tasks by the letters {', '.join(TURNS)}, each once, as in errands:ABC"
            )
        if self.size < 3 or self.length < 1:
            raise ConfigurationError(
                f"task {self.name}: size must be at least 3 and length at least 1, not {self.size} and {self.length}"
            )

    @property
    def name(self) -> str:
        return f"errands:{self.kinds}"

    def kind(self, seed: int) -> str:
        """The task of an episode."""
        return self.kinds[seed // 2 % len(self.kinds)]

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(4 + len(self.kinds), len(MOVES)),)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> JointEnvironment:
        return _Going(self, width)


class _Going(JointEnvironment):
    """Places are counted in half cells from the middle of the grid, so that turns are exact."""

    def __init__(self, world: Errands, width: int) -> None:
        self.world, self.wall = world, world.size - 1
        self.place, self.mark, self.goal = (np.zeros((width, 2), np.int64) for _ in range(3))
        self.told = np.zeros((width, len(world.kinds)), np.float32)
        self.time, self.first = np.zeros(width, np.int64), np.ones(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        cells = [(2 * x - self.wall, 2 * y - self.wall) for x in range(self.wall + 1) for y in range(self.wall + 1)]
        for slot, seed in zip(slots, seeds, strict=True):
            draws, kind = Key.of(seed).derive("errands").numpy(), self.world.kind(seed)
            self.mark[slot] = cells[draws.integers(len(cells))]
            self.goal[slot] = np.array(TURNS[kind]) @ self.mark[slot]
            others = [cell for cell in cells if cell != tuple(self.goal[slot].tolist())]
            self.place[slot] = others[draws.integers(len(others))]
            self.told[slot] = [letter == kind for letter in self.world.kinds]
            self.time[slot] = 0
        self.first[list(slots)] = self._way()[list(slots)]
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        moved = np.clip(self.place + 2 * MOVES[actions[0]], -self.wall, self.wall)
        before = self._way()
        self.place = np.where(live[:, None], moved, self.place)
        self.time = self.time + live
        there = (self._way() == 0)[:, None]
        pay = (before - self._way())[:, None] / self.first[:, None]
        return Moved(pay, there, (self.time >= self.world.length)[:, None] & ~there)

    def _way(self) -> NDArray[np.int64]:
        """Moves to the goal, `[B]`."""
        return np.asarray(np.abs(self.place - self.goal).sum(1) // 2)

    def seen(self) -> list[NDArray[np.float32]]:
        where = np.concatenate([self.place, self.mark], 1) / self.wall
        return [np.concatenate([where.astype(np.float32), self.told], 1)]

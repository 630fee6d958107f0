"""A corridor at whose end one must remember what stood at its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat

FORWARD = 0
RIGHT_PAY, OTHERWISE = 4.0, -0.1


@dataclass(frozen=True)
class Corridor:
    """The T-maze of Bakker (2001): a cue at the first of `length` cells says which way to turn at the last.

    The moves are forward, left and right. Left and right count at the junction alone, which ends the episode: the way
    of the cue pays 4, the other -0.1. Elsewhere a turn, and at the junction a step forward, stands still and
    costs 0.1. What is seen: whether the cue says left or right, at the first cell alone, and whether this is the
    junction. So who remembers earns 4, and who does not 1.95 on average at best. After twice as many steps as there are
    cells the episode is cut short. The joint state adds what the cue was.
    """

    length: int = 6

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ConfigurationError(f"task {self.name} needs a corridor of at least 2 cells, not {self.length}")

    @property
    def name(self) -> str:
        return "recall:corridor"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3, 3),)

    @property
    def joint(self) -> int:
        return 4

    def oracle(self, seed: int) -> BestValue:
        """Straight on, then the way of the cue."""
        return BestValue(RIGHT_PAY)

    def open(self, width: int) -> JointEnvironment:
        return _Walks(self, width)


class _Walks(JointEnvironment):
    def __init__(self, world: Corridor, width: int) -> None:
        self.last, self.limit = world.length - 1, 2 * world.length
        self.cue, self.cell, self.time = (np.zeros(width, np.int64) for _ in range(3))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        self.cue[places] = [1 + (Key.of(seed).derive("recall").word & 1) for seed in seeds]
        self.cell[places] = self.time[places] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        move, junction = actions[0], self.cell == self.last
        turned = junction & (move != FORWARD)
        onward = ~junction & (move == FORWARD)
        pay = np.where(turned & (move == self.cue), RIGHT_PAY, np.where(onward, 0.0, OTHERWISE))
        self.cell = self.cell + (onward & live)
        self.time = self.time + live
        return Moved(pay[:, None].astype(np.float64), turned[:, None], (self.time >= self.limit)[:, None])

    def seen(self) -> list[NDArray[np.float32]]:
        first = self.cell == 0
        parts = [first & (self.cue == 1), first & (self.cue == 2), self.cell == self.last]
        return [np.stack(parts, 1).astype(np.float32)]

    def state(self) -> NDArray[np.float32]:
        return np.concatenate([self.seen()[0], self.cue[:, None]], 1).astype(np.float32)

"""Path finding to one goal each, in which agents are shown what their neighbours see: what messages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import Moved, Seat, Slots
from hocket.zoo.joint.one_shot_paths import OneShotCourse, OneShotPaths
from hocket.zoo.joint.paths import MOVES

HEAD = 3
"""Numbers of a row before the neighbour's sight: 1, and the rows and columns to it over the world's `sight`."""


@dataclass(frozen=True)
class NeighbouringPaths(OneShotPaths):
    """`OneShotPaths` in which nobody leaves, and an agent sees besides its own window those of its neighbours.

    An agent's own numbers are those of `OneShotPaths` and its last action as a one-hot, 0 before the first. Then come
    the `near` nearest others within its window, a row each: `HEAD` numbers, and the neighbour's own ones. A row with
    nobody is 0. All agents must stand on their goals at the same time, which pays each of them 1.

    Attributes:
        near: the most neighbours that are shown. settled: whether some agents begin on their goals; how many have a way
            to go is drawn for every episode, from 1 to all with equal chances.
    """

    size: int = 6
    length: int = 32
    stay: bool = True
    near: int = 3
    settled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.near < 1:
            raise ConfigurationError(f"task {self.name}: near is {self.near}; show 1 neighbour at least")

    @property
    def name(self) -> str:
        return "mapf:neighbours"

    @property
    def seats(self) -> tuple[Seat, ...]:
        (first, *_) = super().seats
        numbers = first.observations + len(MOVES)
        slots = Slots(numbers, self.near, HEAD + numbers)
        return (Seat(numbers + slots.count * slots.size, first.actions, shape=first.shape, slots=slots),) * self.count

    def open(self, width: int) -> NeighbouringCourse:
        return NeighbouringCourse(self, width)


class NeighbouringCourse(OneShotCourse):
    """Many copies; see `PathCourse`. `last` `[B, n, 5]` is every agent's last action."""

    world: NeighbouringPaths

    def __init__(self, world: NeighbouringPaths, width: int) -> None:
        super().__init__(world, width)
        self.last = np.zeros((width, world.count, len(MOVES)), np.float32)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        self.last[list(slots)] = 0.0
        return super().reset(slots, seeds)

    def _begin(self, slot: int, key: Key) -> None:
        super()._begin(slot, key)
        if self.world.settled:
            travellers = 1 + int(key.derive("travellers").numpy().integers(self.world.count))
            for number in range(travellers, self.world.count):
                self._aim(slot, number, self.place[slot, number])

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        named = np.eye(len(MOVES), dtype=np.float32)[np.stack(actions, 1)]
        self.last = np.where(live[:, None, None], named, self.last)
        return super().step(actions, live)

    def seen(self) -> list[NDArray[np.float32]]:
        numbers = np.concatenate([np.stack(super().seen(), 1), self.last], -1)
        width, count = numbers.shape[:2]
        toward = self.place[:, None] - self.place[:, :, None]
        distance = np.abs(toward).max(-1).astype(np.float64)
        distance[(distance > self.world.sight) | np.eye(count, dtype=bool)] = np.inf
        near = np.argsort(distance, -1, kind="stable")[..., : self.world.near]
        there = np.isfinite(np.take_along_axis(distance, near, -1))[..., None]
        head = np.take_along_axis(toward, near[..., None], 2) / self.world.sight
        rows = np.concatenate([there, head, numbers[self._rows[..., None], near]], -1, dtype=np.float32) * there
        short = self.world.near - near.shape[-1]  # Where there are fewer others than rows.
        rows = np.pad(rows, ((0, 0), (0, 0), (0, short), (0, 0)))
        sights = np.concatenate([numbers, rows.reshape(width, count, -1)], -1)
        return [sights[:, number] for number in range(count)]

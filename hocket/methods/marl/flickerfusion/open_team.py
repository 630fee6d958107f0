"""A joint world whose agents see some of the others at a time, at every step others (arXiv:2410.15876)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Slots
from hocket.core.wrappers import WorldWrapper


@dataclass(frozen=True)
class Flickering(WrappedWorld):
    """`world`, in which every agent sees at most so many of the rows that are there, drawn by each anew at every step.

    Every subset of one size is as likely as another. Rows that are kept move to the front and keep their order; the
    others are 0, as if nobody were there. Rewards and states are those of the world.

    Attributes:
        most: rows that an agent sees. least: where it is at least 1, how many it sees is drawn evenly too, from
            `least` (or all, where fewer are there) to `most`; at 0 it sees as many as it may.
    """

    most: int = 4
    least: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            raise ConfigurationError(
                f"task {self.world.name}: agents see at most {self.most} and at least {self.least} others; let the "
                "first be at least 1, and the second no more than it"
            )
        if any(seat.slots is None for seat in self.world.seats):
            raise ConfigurationError(
                f"task {self.world.name}: nobody flickers where others are not seen row by row; use mpe:flee, or "
                "mpe:spread?graph=true"
            )

    def open(self, width: int) -> JointEnvironment:
        return _Flickered(self, width)


class _Flickered(WrappedCourse):
    def __init__(self, world: Flickering, width: int) -> None:
        super().__init__(world.world.open(width))
        self.world = world
        self._words, self._time = np.zeros((width, 1), np.uint64), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self._words[slot], self._time[slot] = Key.of(seed).derive("flicker").word, 0
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        self._time = self._time + live
        return self._course.step(actions, live)

    def seen(self) -> list[NDArray[np.float32]]:
        shown, start, found = self._course.seen(), 0, []
        draws = sum(seat.slots.count + 1 for seat in self.world.seats if seat.slots is not None)
        for seat, one in zip(self.world.seats, shown, strict=True):
            slots = seat.slots
            assert slots is not None
            counters = self._time[:, None] * draws + start + np.arange(slots.count + 1)
            drawn = uniforms(self._words, counters.astype(np.uint64))
            found.append(self._kept(one, slots, drawn))
            start += slots.count + 1
        return found

    def _kept(self, shown: NDArray[np.float32], slots: Slots, drawn: NDArray[np.float64]) -> NDArray[np.float32]:
        """What an agent sees `[B, O]` without the rows that are dropped, by uniforms `[B, count + 1]`."""
        end = slots.own + slots.count * slots.size
        rows = shown[:, slots.own : end].reshape(len(shown), slots.count, slots.size)
        there = rows[..., 0] > 0
        most = np.minimum(there.sum(1), self.world.most)
        if self.world.least:
            least = np.minimum(most, self.world.least)
            most = least + np.floor(drawn[:, -1] * (most - least + 1)).astype(np.int64)
        rank = np.where(there, drawn[:, :-1], 2.0).argsort(1).argsort(1)
        kept = there & (rank < most[:, None])
        front = np.argsort(~kept, 1, kind="stable")[..., None]
        packed = np.take_along_axis(np.where(kept[..., None], rows, np.float32(0)), front, 1)
        return np.concatenate([shown[:, : slots.own], packed.reshape(len(shown), -1), shown[:, end:]], 1)


FLICKER = WorldWrapper(
    name="flicker=MOST",
    description="agents see at most so many of the others at a time, drawn anew at every step",
    settings={"flicker": int},
    layer=1,
    wrap=lambda world, flicker: Flickering(world, flicker),
)

"""Lot sizing: one machine, several goods, demand that nobody knows before it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Seat

SET_UP, HELD, LOST = 1.0, 0.1, 1.5
"""What a change of the machine, a piece kept for a period and a piece that is missing cost."""


@dataclass(frozen=True)
class LotSizing:
    """A machine makes `lot` pieces a period of the good that it is set up for; the demand for all then comes.

    Action 0 rests, action i makes good i. To change what the machine is set up for costs 1 and one piece of the lot. A
    store holds `room` pieces of a good. Demand for each good is uniform on 0..`demand`; a piece that is missing costs
    1.5 and the sale is lost, one that is left over costs 0.1. The episode ends after `length` periods.

    So a step is a decision, whose outcome is certain, then chance: `after` is the state between the two, the
    post-decision state. Seen are the shares of room taken, what the machine is set up for (one-hot, none at first), and
    the share of periods that are over; the joint state is the same. It stands in for the stochastic discrete lot-sizing
    problem of PDPPO's paper, which has set-up states and random yields as well.
    """

    goods: int = 2
    length: int = 20
    lot: int = 3
    room: int = 6
    demand: int = 2

    def __post_init__(self) -> None:
        if min(self.goods, self.length, self.lot, self.room, self.demand) < 1:
            raise ConfigurationError(f"task {self.name}: goods, length, lot, room and demand must be at least 1")

    @property
    def name(self) -> str:
        return "lots:sizing"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(2 * self.goods + 2, self.goods + 1),)

    @property
    def joint(self) -> int:
        return self.seats[0].observations

    @property
    def post(self) -> int:
        """The size of what `after` gives."""
        return self.joint

    def after(self, seen: NDArray[np.float32], actions: NDArray[Any]) -> NDArray[np.float32]:
        """The state after the decision and before chance, `[B, post]`, as what is seen shows it."""
        made = seen.copy()
        for good in range(1, self.goods + 1):
            mine = np.flatnonzero(actions == good)
            pieces = self.lot - (seen[mine, self.goods + good] < 0.5)
            made[mine, good - 1] = np.minimum(seen[mine, good - 1] + pieces / np.float32(self.room), 1.0)
            made[mine, self.goods : 2 * self.goods + 1] = 0.0
            made[mine, self.goods + good] = 1.0
        return made

    def open(self, width: int) -> JointEnvironment:
        return _Workshop(self, width)


class _Workshop(JointEnvironment):
    def __init__(self, world: LotSizing, width: int) -> None:
        self.world = world
        self.words = np.zeros((width, 1), np.uint64)
        self.stock = np.zeros((width, world.goods), np.int64)
        self.set_up, self.time = np.zeros(width, np.int64), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        self.words[places, 0] = [Key.of(seed).derive("lots").word for seed in seeds]
        self.stock[places] = 0
        self.set_up[places] = self.time[places] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world, action = self.world, actions[0]
        changed = (action > 0) & (action != self.set_up)
        made = np.where(action > 0, world.lot - changed, 0)[:, None] * (
            action[:, None] == np.arange(1, world.goods + 1)
        )
        stock = np.minimum(self.stock + made, world.room)
        counters = (self.time[:, None] * world.goods + np.arange(world.goods)).astype(np.uint64)
        wanted = (uniforms(self.words, counters) * (world.demand + 1)).astype(np.int64)
        left = np.maximum(stock - wanted, 0)
        cost = SET_UP * changed + HELD * left.sum(1) + LOST * np.maximum(wanted - stock, 0).sum(1)
        self.stock = np.where(live[:, None], left, self.stock)
        self.set_up = np.where(live & (action > 0), action, self.set_up)
        self.time = self.time + live
        over = (self.time >= world.length)[:, None]
        return Moved(-cost[:, None].astype(np.float64), over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        world = self.world
        set_up = self.set_up[:, None] == np.arange(world.goods + 1)
        told = [self.stock / world.room, set_up, self.time[:, None] / world.length]
        return [np.concatenate(told, 1).astype(np.float32)]

    def state(self) -> NDArray[np.float32]:
        return self.seen()[0]

"""Mini-games of real-time strategy on a grid, whose actions are a function and its arguments, in numpy.

Functions, arguments and which of them are there when are in the manner of the StarCraft II learning environment
(Vinyals et al., arXiv:1708.04782), written from its description: no rule or number of play is StarCraft's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.marl.sc2le.chain import Factors

FUNCTIONS = ("no_op", "select_point", "select_rect", "select_army", "move_screen")
"""What one may do; `move_screen` is there while a unit is selected, the others always."""

ARGUMENTS = ("screen", "screen2")
"""What functions take: points of the screen, numbered row by row."""

TAKES = ((False, False), (True, False), (True, True), (False, False), (True, False))
"""Which function takes which argument."""

NO_OP, POINT, RECT, ARMY, MOVE = range(len(FUNCTIONS))


@dataclass(frozen=True)
class MiniGame:
    """One agent orders units about who fetch goals: with one unit and one goal `MoveToBeacon`, else mineral shards.

    An order takes hold at once, then time goes on by `pace` steps before the next. `select_point` selects the units at
    a point, none where there are none; `select_rect` those within the rectangle of two opposite corners; `select_army`
    all. `move_screen` sends whoever is selected to a point; a unit goes a cell a step, also aslant, until it is there
    or is sent elsewhere, and units do not stand in each other's way. A goal is fetched by the unit that comes to it,
    and pays 1; when none is left as many are drawn anew, on cells where no unit is. The episode is cut short after
    `length` orders.

    Seen are four layers over the screen: units, goals, selected units, where units are sent. The joint state is the
    same.

    Attributes:
        units, goals: how many. size: rows and columns. pace: steps for every order.
    """

    units: int = 1
    goals: int = 1
    size: int = 6
    length: int = 20
    pace: int = 4

    def __post_init__(self) -> None:
        if min(self.units, self.goals, self.length, self.pace) < 1 or self.size < 2:
            raise ConfigurationError(
                f"task {self.name}: units, goals, length and pace must be at least 1, size at least 2"
            )
        if self.units + self.goals > self.size**2:
            raise ConfigurationError(
                f"task {self.name}: {self.units} units and {self.goals} goals have no room on {self.size}x{self.size} "
                "cells; make size larger"
            )

    @property
    def name(self) -> str:
        return "rts:beacon" if self.goals == 1 else "rts:shards"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("commander",)

    @property
    def factors(self) -> Factors:
        return Factors((len(FUNCTIONS), *[self.size**2] * len(ARGUMENTS)), TAKES)

    @property
    def seats(self) -> tuple[Seat, ...]:
        factors, shape = self.factors, (4, self.size, self.size)
        return (Seat(self.joint, sum(factors.sizes), shape=shape, action_form=factors),)

    @property
    def joint(self) -> int:
        return 4 * self.size**2

    def open(self, width: int) -> Screen:
        return Screen(self, width)


class Screen(JointEnvironment):
    """Many copies. `place` and `sent` `[B, units]` are cells, `selected` `[B, units]`, `goal` `[B, size^2]` bool."""

    fixed = frozenset({"_slots"})

    def __init__(self, world: MiniGame, width: int) -> None:
        self.world, cells = world, world.size**2
        self.place, self.sent = np.zeros((2, width, world.units), np.int64)
        self.selected = np.zeros((width, world.units), bool)
        self.goal = np.zeros((width, cells), bool)
        self.time, self._round = np.zeros((2, width), np.int64)
        self._key = [Key.of(0)] * width
        self._slots = np.arange(width)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self._key[slot] = Key.of(seed).derive("rts")
            cells = self._key[slot].numpy().permutation(self.world.size**2)
            self.place[slot] = self.sent[slot] = cells[: self.world.units]
            self.selected[slot], self.time[slot], self._round[slot] = False, 0, 0
            self._set(slot)
        return {}

    def _set(self, slot: int) -> None:
        """Draws goals on cells where no unit is."""
        order = self._key[slot].derive("goals", int(self._round[slot])).numpy().permutation(self.world.size**2)
        free = order[~np.isin(order, self.place[slot])]
        self.goal[slot] = False
        self.goal[slot, free[: self.world.goals]] = True
        self._round[slot] += 1

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        function, first, second = (actions[0][:, part, None] for part in range(1 + len(ARGUMENTS)))
        here, size = live[:, None], self.world.size
        ends = np.stack([first, second]) // size, np.stack([first, second]) % size
        row, column = self.place // size, self.place % size
        within = (ends[0].min(0) <= row) & (row <= ends[0].max(0)) & (ends[1].min(0) <= column)
        within &= column <= ends[1].max(0)
        chosen = np.where(function == POINT, self.place == first, np.where(function == RECT, within, True))
        selects = (function >= POINT) & (function <= ARMY)
        self.selected = np.where(here & selects, chosen, self.selected)
        self.sent = np.where(here & (function == MOVE) & self.selected, first, self.sent)
        paid = np.zeros(len(live))
        for _ in range(self.world.pace):
            walk = np.sign(self.sent // size - self.place // size) * size
            walk += np.sign(self.sent % size - self.place % size)
            self.place = np.where(here, self.place + walk, self.place)
            paid += self._fetched(live)
        self.time = self.time + live
        late = (live & (self.time >= self.world.length))[:, None]
        return Moved(paid[:, None], np.zeros_like(late), late)

    def _fetched(self, live: NDArray[np.bool_]) -> NDArray[np.float64]:
        """How many goals units stand on, which are gone then, `[B]`."""
        before = self.goal.sum(1)
        for cell in self.place.T:
            self.goal[self._slots, cell] &= ~live
        left = self.goal.sum(1)
        for slot in np.flatnonzero(live & (left == 0)).tolist():
            self._set(slot)
        paid: NDArray[np.float64] = (before - left).astype(np.float64)
        return paid

    def allowed(self) -> list[NDArray[np.bool_]]:
        functions = np.ones((len(self.time), len(FUNCTIONS)), bool)
        functions[:, MOVE] = self.selected.any(1)
        points = np.ones((len(self.time), len(ARGUMENTS) * self.world.size**2), bool)
        return [np.concatenate([functions, points], 1)]

    def seen(self) -> list[NDArray[np.float32]]:
        layers = np.zeros((len(self.time), 4, self.world.size**2), np.float32)
        layers[:, 1] = self.goal
        for unit in range(self.world.units):
            layers[self._slots, 0, self.place[:, unit]] = 1.0
            layers[self._slots, 2, self.place[:, unit]] = np.maximum(
                layers[self._slots, 2, self.place[:, unit]], self.selected[:, unit]
            )
            layers[self._slots, 3, self.sent[:, unit]] = 1.0
        return [layers.reshape(len(layers), -1)]

    def state(self) -> NDArray[np.float32]:
        return self.seen()[0]

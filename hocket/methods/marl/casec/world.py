"""Sensors on a grid that must look at a target in pairs: rewards of pairs, in states that can all be counted."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily

Ints = NDArray[np.int64]

SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Where a sensor can look; its actions are these, then resting."""

REST = len(SIDES)
ACTIONS = REST + 1
PAY, COST = 3.0, 1.0


@dataclass(frozen=True, eq=False)
class Sensors:
    """Targets are between neighbours; one pays when both look at it, and each look costs.

    A state is which of the places between neighbours have a target; every set of so many is equally likely, at each
    moment anew. A sensor sees the targets beside it. An answer is `[S, n, A]`; its value is the mean pay of the actions
    with the largest shares.

    Attributes:
        rows, columns: of the grid. targets: how many.
    """

    rows: int
    columns: int
    targets: int

    @property
    def name(self) -> str:
        return f"sensors:{self.rows}x{self.columns}"

    @property
    def count(self) -> int:
        """How many sensors."""
        return self.rows * self.columns

    @cached_property
    def between(self) -> Ints:
        """The two sensors beside each place `[L, 2]`."""
        right = [(cell, cell + 1) for cell in range(self.count) if (cell + 1) % self.columns]
        down = [(cell, cell + self.columns) for cell in range(self.count - self.columns)]
        return np.array(right + down)

    @cached_property
    def places(self) -> Ints:
        """The place on each side of a sensor `[n, 4]`, -1 where there is none."""
        result = np.full((self.count, len(SIDES)), -1)
        for place, (first, second) in enumerate(self.between):
            along = 1 if second == first + self.columns else 3
            result[first, along], result[second, along - 1] = place, place
        return result

    @cached_property
    def states(self) -> NDArray[np.bool_]:
        """Where targets are, `[S, L]`."""
        sets = np.array(list(itertools.combinations(range(len(self.between)), self.targets)))
        result = np.zeros((len(sets), len(self.between)), bool)
        result[np.arange(len(sets))[:, None], sets] = True
        return result

    @cached_property
    def seen(self) -> Array:
        """What each sensor sees in every state, `[S, n, 4]`."""
        beside = np.where(self.places < 0, False, self.states[:, self.places])
        return beside.astype(np.float64)

    @cached_property
    def pairs(self) -> Ints:
        """All pairs of sensors `[P, 2]`."""
        return np.array(list(itertools.combinations(range(self.count), 2)))

    @cached_property
    def sides(self) -> Array:
        """On which side of the first of a pair the second is, `[P, 4]`; all 0 where they are no neighbours."""
        shared = self.places[self.pairs[:, 0]]
        beside = (self.places[self.pairs[:, 1]][:, None] == shared[..., None]) & (shared >= 0)[..., None]
        result: Array = beside.any(-1).astype(np.float64)
        return result

    def paid(self, states: Ints, actions: Ints) -> Array:
        """What joint actions `[B, n]` earn in states `[B]`, `[B]`."""
        looked = np.where(actions < REST, self.places[np.arange(self.count), np.minimum(actions, REST - 1)], -1)
        both = (looked[:, self.between] == np.arange(len(self.between))[:, None]).all(-1)
        caught = (both & self.states[states]).sum(-1)
        paid: Array = PAY * caught - COST * (actions < REST).sum(-1)
        return paid

    @cached_property
    def optimum(self) -> float:
        """By the largest set of targets of which no two are beside one sensor, in each state."""
        free = np.zeros(len(self.states), np.int64)
        for size in range(1, self.targets + 1):
            for places in itertools.combinations(range(len(self.between)), size):
                if len(set(self.between[list(places)].ravel())) == 2 * size:
                    free = np.where(self.states[:, places].all(-1), size, free)
        return float((PAY - 2 * COST) * free.mean())

    def value(self, answer: Array) -> float:
        return float(self.paid(np.arange(len(self.states)), answer.argmax(-1)).mean())


def sensors(rows: int, columns: int) -> Sensors:
    """A grid with a target for every third place.

    Raises:
        ConfigurationError: for less than two sensors, or more than can be counted.
    """
    if not 2 <= rows * columns <= 9:
        raise ConfigurationError(f"world sensors:{rows}x{columns}: its states are counted, so it has 2 to 9 sensors")
    places = rows * (columns - 1) + columns * (rows - 1)
    return Sensors(rows, columns, max(1, places // 3))


SENSORS = WorldFamily(
    name="sensors", description="sensors that must look in pairs, for casec", make=sensors, size=(2, 3)
)

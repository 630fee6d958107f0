"""Two cars on lanes that cross, on a grid of places and speeds: best answers and equilibria by dynamic programming."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily

SPEEDS, CHOICES = 3, np.array([1, 0, -1])
"""Speeds 0, 1 and 2 cells a step; speeding up, keeping, braking, in the order in which ties are decided."""

EFFORT, CRASH, LATE = 0.1, 20.0, 10.0
"""What a change of speed costs, a step costing 1; what a crash costs both, and not to be through at the end."""

Place = NDArray[np.int64]


@dataclass(frozen=True)
class Drive:
    """A car's equilibrium drive: places and speeds `[T + 1]`, and what it still costs from each time on, `[T + 1]`."""

    places: Place
    speeds: Place
    costs: Array


@dataclass(frozen=True, eq=False)
class Crossing:
    """Cells 0 to `approach + 2` of each lane: two before the last are shared with the other, the last is through.

    An answer is what each car takes the rest of its way to cost, `[2, P, 3, P, 3]`, by its own place and speed and the
    other's, where its look ahead ends. Both then plan anew at every step (see `driving`), and the value is less what
    that costs a car on average, from every pair of states in the first half of the approach.

    Attributes:
        look: how many steps a plan has. steps: of an episode.
    """

    approach: int
    look: int = 1
    steps: int = 24
    name: str = "crossing"

    def __post_init__(self) -> None:
        if self.approach < 2 or self.look < 1 or self.steps < self.approach:
            raise ConfigurationError(
                f"{self.name}: approach = {self.approach}, look = {self.look}, steps = {self.steps}; approach is at "
                "least 2, look 1, and there are no fewer steps than cells before the crossing"
            )

    @property
    def through(self) -> int:
        """The place of a car that is through."""
        return self.approach + 2

    @property
    def shared(self) -> NDArray[np.bool_]:
        """`[P]`, the places where only one may be."""
        places = np.arange(self.through + 1)
        return (places >= self.approach) & (places < self.through)

    @property
    def starts(self) -> Place:
        """`[N, 4]`, place and speed of both."""
        cells = np.arange(self.approach // 2 + 1)
        return np.stack(np.meshgrid(cells, range(SPEEDS), cells, range(SPEEDS), indexing="ij"), -1).reshape(-1, 4)

    def driven(self, place: Place, speed: Place, choice: Place) -> tuple[Place, Place, Array]:
        """Place and speed after a choice, and its cost."""
        after = np.clip(speed + CHOICES[choice], 0, SPEEDS - 1)
        cost = np.where(place < self.through, 1 + EFFORT * np.abs(CHOICES[choice]), 0.0)
        return np.minimum(place + after, self.through), after, cost

    # ------------------------------------------------------------ equilibria

    def answered(self, taken: NDArray[np.bool_]) -> Array:
        """`[T + 1, P, 3]`, the least cost from each time on, where the shared cells are `taken` `[T + 1]` at times."""
        place, speed, choice = np.meshgrid(range(self.through + 1), range(SPEEDS), range(3), indexing="ij")
        onto, faster, cost = self.driven(place, speed, choice)
        found = np.zeros((self.steps + 1, self.through + 1, SPEEDS))
        found[-1, : self.through] = LATE
        for time in reversed(range(self.steps)):
            after = np.where(self.shared[onto] & taken[time + 1], np.inf, found[time + 1][onto, faster])
            found[time] = (cost + after).min(-1)
        return found

    def best_drive(self, place: int, speed: int, taken: NDArray[np.bool_]) -> Drive:
        """The first of the cheapest drives."""
        least = self.answered(taken)
        places, speeds = np.full(self.steps + 1, place), np.full(self.steps + 1, speed)
        for time in range(self.steps):
            onto, faster, cost = self.driven(places[time : time + 1], speeds[time : time + 1], np.arange(3))
            after = np.where(self.shared[onto] & taken[time + 1], np.inf, least[time + 1][onto, faster])
            chosen = int((cost + after).argmin())
            places[time + 1], speeds[time + 1] = onto[chosen], faster[chosen]
        return Drive(places, speeds, least[np.arange(self.steps + 1), places, speeds])

    def equilibrium(self, start: Place) -> tuple[Drive, Drive] | None:
        """Drives of which each is the best answer to the other, from `start` `[4]`; None where a crash is sure.

        The one that would be at the crossing first by itself goes first, of two alike the first car, and they answer
        each other in turn until nothing changes.
        """
        free = np.zeros(self.steps + 1, bool)
        alone = [self.best_drive(int(start[2 * car]), int(start[2 * car + 1]), free) for car in (0, 1)]
        first = int(self._arrived(alone[1]) < self._arrived(alone[0]))
        found = {first: alone[first]}
        for turn in range(1, 20):
            car = first if turn % 2 == 0 else 1 - first
            taken = self.shared[found[1 - car].places]
            drive = self.best_drive(int(start[2 * car]), int(start[2 * car + 1]), taken)
            if not np.isfinite(drive.costs[0]):
                return None
            if car in found and (drive.places == found[car].places).all():
                return found[0], found[1]
            found[car] = drive
        return None

    def _arrived(self, drive: Drive) -> int:
        return int((drive.places >= self.approach).argmax())

    # ------------------------------------------------------------ planning ahead

    @cached_property
    def free(self) -> Array:
        """`[2, P, 3, P, 3]`, what the rest of the way costs a car that is alone."""
        least = self.answered(np.zeros(self.steps + 1, bool))[0]
        shape = (2, self.through + 1, SPEEDS, self.through + 1, SPEEDS)
        return np.broadcast_to(least[None, :, :, None, None], shape).copy()

    def driving(self, rest: Array) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """Costs `[N, 2]` of both who plan at every step, who crashed and who were late, `[N]`, from all starts.

        They plan in turn. The first takes the other to do what it last said it would, and then to keep its speed; the
        second has heard what the first is about to do.
        """
        state = self.starts
        plans = np.ones((2, len(state), self.look), np.int64)
        cost, crashed = np.zeros((len(state), 2)), np.zeros(len(state), bool)
        for _ in range(self.steps):
            left = np.pad(plans[1, :, 1:], ((0, 0), (0, 1)), constant_values=1)
            plans[0] = self.planned(rest[0], state, left)
            plans[1] = self.planned(rest[1], state[:, [2, 3, 0, 1]], plans[0])
            first, second = (self.driven(state[:, 2 * car], state[:, 2 * car + 1], plans[car, :, 0]) for car in (0, 1))
            cost += np.where(crashed[:, None], 0, np.stack([first[2], second[2]], -1))
            meet = self.shared[first[0]] & self.shared[second[0]] & ~crashed
            cost[meet] += CRASH
            crashed |= meet
            state = np.stack([*first[:2], *second[:2]], -1)
        behind = (state[:, [0, 2]] < self.through) & ~crashed[:, None]
        return cost + LATE * behind, crashed, np.asarray(behind.any(-1))

    def planned(self, rest: Array, state: Place, forecast: Place) -> Place:
        """`[N, look]`, each one's cheapest plan, from states `[N, 4]` of itself and the other, whose choices are given.

        A plan that meets the other is out; where all are, the car brakes. `rest` is `[P, 3, P, 3]`.
        """
        every = np.array(list(itertools.product(range(3), repeat=self.look)))
        own, speed = (np.repeat(state[:, place : place + 1], len(every), 1) for place in (0, 1))
        other, going = state[:, 2], state[:, 3]
        total, crashed = np.zeros(own.shape), np.zeros(own.shape, bool)
        for step in range(self.look):
            own, speed, cost = self.driven(own, speed, np.broadcast_to(every[:, step], own.shape))
            other, going, _ = self.driven(other, going, forecast[:, step])
            crashed |= self.shared[own] & self.shared[other][:, None]
            total += cost
        total += rest[own, speed, other[:, None], going[:, None]]
        total[crashed] = np.inf
        best = np.where(np.isfinite(total.min(-1)), total.argmin(-1), len(every) - 1)
        return every[best]

    def value(self, rest: Array) -> float:
        return -float(self.driving(rest)[0].mean())

    @cached_property
    def optimum(self) -> float:
        """A bound: each drives as if it were alone."""
        start = self.starts
        return -float(self.free[0, start[:, 0], start[:, 1], 0, 0].mean())


def crossing(approach: int) -> Crossing:
    """Lanes of `approach` cells before the two that are shared; plans of one step."""
    return Crossing(approach, name=f"crossing:{approach}")


CROSSING = WorldFamily(name="crossing", description="two cars whose lanes cross", make=crossing, size=(8,))

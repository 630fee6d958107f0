"""Level-based foraging (Albrecht and Ramamoorthy, arXiv:1506.01170; Papoudakis et al., arXiv:2006.07869), in numpy.

Rules, numbers, and what a seed means are those of lbforaging 2 (MIT licence), in an environment made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.zoo.joint.particles import drawn_from

Ints = NDArray[np.int64]

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])
"""Stay, north, south, west, east, load: rows and columns moved."""
LOAD = 5


@dataclass(frozen=True)
class Foraging:
    """Agents of different levels pick up food on a grid; food above an agent's level takes several who load at once.

    The pay of a food is shared by level, `level * food / (levels loading * all food at the beginning)`, so a whole
    episode pays 1 in sum. A move into food, over the edge, or to a cell that another wants as well does nothing. An
    agent sees foods (row, column, level; -1, -1, 0 where none), then itself and the others in the same form. The
    episode terminates when nothing is left; a limit of `length` steps truncates it (upstream calls that done as well).

    Attributes:
        size: rows and columns. players, foods: how many. coop: every food takes all players (up to three) at once.
        sight: how far agents see, in cells; None is everything. penalty: what a load that fails costs.
    """

    leads: ClassVar[str] = "sampled"  # The likeliest moves of all can be a standstill that no memory breaks.

    size: int = 8
    players: int = 2
    foods: int = 2
    coop: bool = False
    sight: int | None = None
    length: int = 50
    penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 3 or self.players < 1 or self.foods < 1 or self.length < 1 or (self.sight or 1) < 1:
            raise ConfigurationError(
                f"task {self.name} needs a size of at least 3, and players, foods, length and sight of at least 1"
            )

    @property
    def name(self) -> str:
        return f"forage:{self.size}x{self.size}-{self.players}p-{self.foods}f"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"player_{number}" for number in range(self.players))

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3 * (self.foods + self.players), len(MOVES)),) * self.players

    @property
    def joint(self) -> int:
        return 3 * (self.foods + self.players)

    def open(self, width: int) -> JointEnvironment:
        return _Field(self, width)


class _Field(JointEnvironment):
    def __init__(self, world: Foraging, width: int) -> None:
        self.world = world
        self.place, self.level = np.zeros((width, world.players, 2), int), np.ones((width, world.players), int)
        self.food, self.left = np.zeros((width, world.foods, 2), int), np.zeros((width, world.foods), int)
        self.whole, self.time = np.ones(width), np.zeros(width, int)
        self.others = [[i for i in range(world.players) if i != number] for number in range(world.players)]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            place, level, food, left = _laid_out(self.world, seed)
            self.place[slot], self.level[slot] = place, level
            self.food[slot], self.left[slot] = food, left
            self.whole[slot], self.time[slot] = max(int(left.sum()), 1), 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        action = np.stack(actions, 1)
        target = self.place + MOVES[action]
        inside = ((target >= 0) & (target < self.world.size)).all(-1)
        free = ~((target[:, :, None] == self.food[:, None]).all(-1) & (self.left > 0)[:, None]).any(-1)
        target = np.where((inside & free)[..., None], target, self.place)
        beside = self._beside()
        loading = (action == LOAD) & beside.any(-1)
        wanted = (target[:, :, None] == target[:, None]).all(-1).sum(-1)
        self.place = np.where((wanted == 1)[..., None] & live[:, None, None], target, self.place)
        rewards = self._loaded(beside & loading[..., None] & live[:, None, None])
        self.time = self.time + live
        done = (self.left == 0).all(1)
        late = ~done & (self.time >= self.world.length)
        every = np.ones((1, self.world.players), bool)
        return Moved(rewards, done[:, None] & every, late[:, None] & every)

    def _beside(self) -> NDArray[np.bool_]:
        """Which food an agent stands beside, `[B, n, F]`: foods lie so far apart that it is at most one."""
        away = np.abs(self.place[:, :, None] - self.food[:, None]).sum(-1)
        found: NDArray[np.bool_] = (away == 1) & (self.left > 0)[:, None]
        return found

    def _loaded(self, loads: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Takes what those who load `[B, n, F]` can carry; who earned what, `[B, n]`."""
        strength = (loads * self.level[..., None]).sum(1)
        tried = loads.any(1)
        taken = tried & (strength >= self.left)
        share = (
            self.level[..., None] * self.left[:, None] / (np.maximum(strength, 1)[:, None] * self.whole[:, None, None])
        )
        paid = np.where(taken[:, None], share, -self.world.penalty)
        self.left = np.where(taken, 0, self.left)
        earned: NDArray[np.float64] = np.where(loads, paid, 0.0).sum(-1)
        return earned

    def seen(self) -> list[NDArray[np.float32]]:
        sight = self.world.size if self.world.sight is None else self.world.sight
        found = []
        for number in range(self.world.players):
            here = self.place[:, number, None]
            corner = np.maximum(here - sight, 0)
            known = (self.left > 0) & (np.abs(self.food - here) <= sight).all(-1)
            foods = _listed(self.food - corner, self.left, known)
            order = [number, *self.others[number]]
            near = self.place[:, order] - corner
            visible = ((near >= 0) & (near <= 2 * sight)).all(-1)
            people = _listed(near, self.level[:, order], visible)
            found.append(np.concatenate([foods, people], 1).astype(np.float32))
        return found

    def state(self) -> NDArray[np.float32]:
        foods = _listed(self.food, self.left, self.left > 0)
        people = np.concatenate([self.place, self.level[..., None]], -1).reshape(len(self.time), -1)
        return np.concatenate([foods, people], 1).astype(np.float32)


def _listed(place: Ints, level: Ints, known: NDArray[np.bool_]) -> Ints:
    """(row, column, level) of those known, in order, then (-1, -1, 0), `[B, 3 M]`."""
    rows = np.where(known[..., None], np.concatenate([place, level[..., None]], -1), np.array([-1, -1, 0]))
    order = np.argsort(~known, axis=1, kind="stable")
    return np.take_along_axis(rows, order[..., None], 1).reshape(len(rows), -1)


def _laid_out(world: Foraging, seed: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Where players and foods begin and of which levels, by upstream's draws in upstream's order."""
    rng, size = drawn_from(seed), world.size
    rng.permutation(world.players)  # Upstream shuffles bounds of levels, which are equal here.
    place: list[tuple[int, int]] = []
    level: list[int] = []
    while len(place) < world.players:
        cell = (int(rng.integers(0, size)), int(rng.integers(0, size)))
        if cell not in place:
            place.append(cell)
            level.append(int(rng.integers(1, 3)))
    rng.permutation(world.foods)
    most = sum(sorted(level)[:3])
    field = np.zeros((size, size), np.int64)
    for _ in range(1000):
        if np.count_nonzero(field) == world.foods:
            break
        row, column = int(rng.integers(1, size - 1)), int(rng.integers(1, size - 1))
        rows, columns = slice(max(row - 2, 0), row + 3), slice(max(column - 2, 0), column + 3)
        near = field[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2].sum()
        if near + field[rows, column].sum() + field[row, columns].sum() or (row, column) in place:
            continue
        field[row, column] = most if world.coop or most == 1 else int(rng.integers(1, most + 1))
    food = np.full((world.foods, 2), -9)  # What found no room is nowhere.
    found = np.argwhere(field)
    food[: len(found)] = found
    left = np.zeros(world.foods, np.int64)
    left[: len(found)] = field[tuple(found.T)]
    return np.array(place), np.array(level), food, left

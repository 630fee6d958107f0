"""Lifelong path finding of many agents on a grid, in the manner of POGEMA (Skrynnik et al., arXiv:2407.14931).

Written from the description: an agent that reaches its goal is given another; nobody shares a cell, and no two swap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.zoo.joint.grids import distances, largest_part

Ints = NDArray[np.int64]

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
"""Stay, north, south, west, east."""

MAPS = ("random", "corridor")


@dataclass(frozen=True)
class LifelongPaths:
    """Agents with a goal each on a grid with obstacles; every goal reached pays 1 and is followed by another.

    A move into an obstacle or over the edge does nothing. Of those who want one cell none gets it, unless it is their
    own; two who would swap stay; and whoever would enter the cell of one who stays, stays as well. An agent sees, in a
    window around it, what is blocked and where others are, then the direction of its goal (rows and columns, over the
    size) and, with `guide`, which of the four steps lead nearer on an empty map. The joint state is every agent's cell
    and goal, over the size. A limit of `length` steps truncates the episode; nothing terminates it.

    Attributes:
        size: rows and columns. count: agents. density: share of blocked cells of a random map, drawn anew from every
            seed; agents and goals lie in its largest connected part. map: `random`, or `corridor`, two halls joined by
            a corridor of one cell's width. sight: cells seen to each side.
        guide: whether the steps of a shortest path are shown.
    """

    leads: ClassVar[str] = "sampled"  # Those who must give way to each other stand still by their likeliest moves.

    size: int = 8
    count: int = 4
    density: float = 0.2
    length: int = 64
    sight: int = 2
    guide: bool = True
    map: str = "random"

    def __post_init__(self) -> None:
        if self.size < 4 or self.count < 1 or self.length < 1 or self.sight < 1 or not 0 <= self.density <= 0.5:
            raise ConfigurationError(
                f"task {self.name} needs a size of at least 4, agents, length and sight of at least 1, and density in "
                f"[0, 0.5], not {self.size}, {self.count}, {self.length}, {self.sight} and {self.density}"
            )
        if self.map not in MAPS:
            raise ConfigurationError(f"task {self.name}: map is {self.map!r}; choose from {', '.join(MAPS)}")
        if 4 * self.count > self.size**2:
            raise ConfigurationError(
                f"task {self.name}: {self.count} agents are too many for {self.size} x {self.size} cells; at most a "
                f"quarter, {self.size**2 // 4}"
            )

    @property
    def name(self) -> str:
        return "mapf:lifelong"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"agent_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        window = (2, 2 * self.sight + 1, 2 * self.sight + 1)
        size = math.prod(window) + 2 + (4 if self.guide else 0)
        return (Seat(size, len(MOVES), shape=window),) * self.count

    @property
    def joint(self) -> int:
        return 4 * self.count

    def open(self, width: int) -> PathCourse:
        return PathCourse(self, width)


class PathCourse(JointEnvironment):
    """Many copies; `place` and `goal` `[B, n, 2]`, `free` `[B, H, W]` and `ways`, the steps to each goal, are open.

    So is `present`, who is on the grid, `[B, n]`: here everybody is.
    """

    fixed = frozenset({"_rows"})

    def __init__(self, world: LifelongPaths, width: int) -> None:
        self.world, size, count = world, world.size, world.count
        self.free = np.ones((width, size, size), bool)
        self.place, self.goal = np.zeros((width, count, 2), int), np.zeros((width, count, 2), int)
        self.place[:, :, 0], self.place[:, :, 1] = np.divmod(np.arange(count), size)
        self.present = np.ones((width, count), bool)
        self.ways = np.zeros((width, count, size, size), int)
        self.words = np.zeros((width, count), np.uint64)
        self.given, self.time = np.zeros((width, count), int), np.zeros(width, int)
        self.cells: list[Ints] = [np.argwhere(free) for free in self.free]
        edge = 2 * world.sight
        self._walls = np.ones((width, size + edge, size + edge), bool)
        self._rows = np.arange(width)[:, None]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            free = drawn_map(self.world, seed)
            cells = np.argwhere(free)
            key = Key.of(seed).derive("mapf")
            self.free[slot], self.cells[slot] = free, cells
            sight = self.world.sight
            self._walls[slot, sight:-sight, sight:-sight] = ~free
            self.place[slot] = cells[key.derive("place").numpy().permutation(len(cells))[: self.world.count]]
            self.words[slot] = [key.derive("goal", number).word for number in range(self.world.count)]
            self.given[slot], self.time[slot] = 0, 0
            self._begin(slot, key)
        return {}

    def _begin(self, slot: int, key: Key) -> None:
        """Gives everybody a first goal; `key` is the episode's."""
        for number in range(self.world.count):
            self._assign(slot, number)

    def _assign(self, slot: int, number: int) -> None:
        """The next goal of an agent: any cell but its own."""
        cells = self.cells[slot]
        drawn = uniforms(self.words[slot, number : number + 1], self.given[slot, number : number + 1].astype(np.uint64))
        choice = int(drawn[0] * (len(cells) - 1))
        current = int(np.flatnonzero((cells == self.place[slot, number]).all(1))[0])
        self.given[slot, number] += 1
        self._aim(slot, number, cells[choice + (choice >= current)])

    def _aim(self, slot: int, number: int, goal: Ints) -> None:
        """Gives an agent this goal `[2]`."""
        self.goal[slot, number] = goal
        if self.world.guide:
            self.ways[slot, number] = distances(self.free[slot], (int(goal[0]), int(goal[1])))

    def _move(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> None:
        """Moves whoever is present in a copy that is live, as far as walls and others let it."""
        wanted = self.place + MOVES[np.stack(actions, 1)]
        inside = ((wanted >= 0) & (wanted < self.world.size)).all(-1)
        wanted = np.where(inside[..., None], wanted, self.place)
        open_cell = self.free[self._rows, wanted[..., 0], wanted[..., 1]] & live[:, None]
        wanted = np.where(open_cell[..., None], wanted, self.place)
        self.place = without_conflicts(self.place, wanted, self.world.size, self.present)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        self._move(actions, live)
        reached = (self.place == self.goal).all(-1) & live[:, None]
        for slot, number in np.argwhere(reached).tolist():
            self._assign(slot, number)
        self.time = self.time + live
        late = np.repeat((self.time >= self.world.length)[:, None], self.world.count, 1)
        return Moved(reached.astype(np.float64), np.zeros_like(late), late)

    def seen(self) -> list[NDArray[np.float32]]:
        width, count, sight, size = len(self.time), self.world.count, self.world.sight, self.world.size
        people = np.zeros(self._walls.shape, bool)
        copy, agent = np.nonzero(self.present)
        people[copy, self.place[copy, agent, 0] + sight, self.place[copy, agent, 1] + sight] = True
        span = np.arange(2 * sight + 1)
        rows = (self.place[..., 0, None] + span)[..., :, None]
        columns = (self.place[..., 1, None] + span)[..., None, :]
        copies = self._rows[..., None, None]
        near = people[copies, rows, columns]
        near[:, :, sight, sight] = False  # Oneself.
        toward = (self.goal - self.place) / size
        parts = [self._walls[copies, rows, columns].reshape(width, count, -1), near.reshape(width, count, -1), toward]
        if self.world.guide:
            parts.append(self._guide())
        sights = np.concatenate(parts, -1, dtype=np.float32)
        return [sights[:, number] for number in range(count)]

    def _guide(self) -> NDArray[np.bool_]:
        """Which of the four steps lead nearer to the goal on an empty map, `[B, n, 4]`."""
        agents, size = np.arange(self.world.count)[None], self.world.size
        distance = self.ways[self._rows, agents, self.place[..., 0], self.place[..., 1]]
        nearer = []
        for move in MOVES[1:]:
            there = np.clip(self.place + move, 0, size - 1)
            ahead = self.ways[self._rows, agents, there[..., 0], there[..., 1]]
            nearer.append((ahead >= 0) & (ahead < distance))
        return np.stack(nearer, -1)

    def state(self) -> NDArray[np.float32]:
        cells = np.concatenate([self.place, self.goal], -1) / self.world.size
        return cells.reshape(len(self.time), -1).astype(np.float32)


def without_conflicts(place: Ints, wanted: Ints, size: int, present: NDArray[np.bool_]) -> Ints:
    """Where all are after those who collide stay, `[B, n, 2]`: no cell is shared, and no two swap.

    `wanted` are free cells within the grid. Who is not `present` `[B, n]` stays, and is in nobody's way. Whoever would
    collide stays, until nobody would any more; each round keeps one more agent in its place, so there are at most n.
    """
    width, count = place.shape[:2]
    copies = np.arange(width)[:, None] * (size * size)
    start = copies + place[..., 0] * size + place[..., 1]
    aim = copies + wanted[..., 0] * size + wanted[..., 1]
    apart = width * size * size + np.arange(width * count).reshape(width, count)  # A cell for each, off every grid.
    start, aim = np.where(present, start, apart), np.where(present, aim, apart)
    owner = np.full(width * (size * size + count), -1)
    owner[start] = np.arange(count)[None]
    rows = np.arange(width)[:, None]
    for _ in range(count + 1):
        moving = aim != start
        met = owner[aim]
        swap = moving & (met >= 0) & (aim[rows, met] == start)
        crowd = np.bincount(aim.ravel(), minlength=len(owner))[aim] > 1
        stuck = moving & (swap | crowd)
        if not stuck.any():
            break
        aim = np.where(stuck, start, aim)
    return np.where(present[..., None], np.stack(np.divmod(aim - copies, size), -1), place)


def drawn_map(world: LifelongPaths, seed: int) -> NDArray[np.bool_]:
    """Where one may stand in the map of a seed: the largest connected part of it, with room for two of each agent.

    Raises:
        HocketError: when none of a hundred maps has that room.
    """
    size = world.size
    if world.map == "corridor":
        free = np.ones((size, size), bool)
        hall = max(size // 3, 1)
        free[:, hall : size - hall] = False
        free[size // 2, :] = True
        return free
    rng = Key.of(seed).derive("mapf", "map").numpy()
    for _ in range(100):
        free = largest_part(rng.random((size, size)) >= world.density)
        if free.sum() >= 2 * world.count:
            return free
    raise HocketError(f"{world.name}: maps of density {world.density} have no room for {world.count} agents; lower one")

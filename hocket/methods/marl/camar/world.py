"""Routes of many discs among discs in a plane, with continuous actions (CAMAR, arXiv:2508.12845), in numpy.

Forces, motion, sights and pay are those of the package camar (MIT licence) with its holonomic dynamics and its random
grids. Without obstacles a field has its border alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.marl.camar.rrt import Discs, Tree
from hocket.zoo.joint.particles import drawn_from

Floats = NDArray[np.float64]

CELL, OBSTACLE, AGENT = 0.4, 0.1, 0.05
"""The side of a cell, and the radii of discs that obstacles and the border are made of, and of agents."""

CONTACT, MARGIN, DAMPING, TICK, FASTEST = 500.0, 1e-3, 0.25, 0.01, 6.0
"""How hard discs repel and how soft they are, the share of speed lost in a tick, its seconds, and the largest speed."""

REACHED = 0.15
"""How near a point of its route an agent is shown the next one."""


@dataclass(frozen=True)
class Routing:
    """Every agent has a goal of its own, and all push each other and obstacles away.

    An action is a force in the plane, each number cut to [-1, 1] and times `accel`, over `frames` ticks. At every step
    an agent earns 0.5 when it stands on its goal, 0.5 more when all do, loses 1 when it touched anything, and earns
    `shaping` times how much nearer its goal is. All on their goals end the episode. An agent sees where its goal is,
    in units of `window` near it and as a direction elsewhere, and where the surfaces of the `near` nearest discs are,
    within the window. The joint state is the places, speeds and goals of all.

    Attributes:
        count: agents. size: cells of a side. density: the share of cells that are obstacles. length: steps of an
            episode. goal: how near one stands on it. The package has 0.02, 2 ticks in a step and a force of 5; one of
            more than 17, of all that push together, squeezes between the discs of a wall.
        maps: how many maps there are; 0 for another in every episode.
        guide: agents are shown the next point of a route around obstacles by RRT* (`Tree`) in the place of the goal.
    """

    count: int = 4
    size: int = 4
    density: float = 0.0
    length: int = 60
    frames: int = 8
    accel: float = 8.0
    goal: float = 0.1
    window: float = 0.3
    near: int = 3
    shaping: float = 1.0
    maps: int = 0
    guide: bool = False

    def __post_init__(self) -> None:
        cells = self.size**2
        if self.count < 1 or self.length < 1 or self.frames < 1 or self.near < 1 or not 0 <= self.density < 1:
            raise ConfigurationError(
                f"task camar:routing needs agents, length, frames and near of at least 1 and a density in [0, 1), not "
                f"{self.count}, {self.length}, {self.frames}, {self.near} and {self.density}"
            )
        if min(self.accel, self.goal, self.window - AGENT) <= 0 or self.shaping < 0 or self.maps < 0:
            raise ConfigurationError(
                f"task camar:routing needs a positive accel and goal, a window above {AGENT}, and shaping and maps of "
                f"at least 0, not {self.accel}, {self.goal}, {self.window}, {self.shaping} and {self.maps}"
            )
        if 2 * self.count + self.obstacles > cells:
            raise ConfigurationError(
                f"task camar:routing: {self.count} agents, as many goals and {self.obstacles} obstacles do not fit in "
                f"{cells} cells; raise size"
            )
        if self.guide and not self.maps:
            raise ConfigurationError("task camar:routing: routes are planned once for each map; say how many, maps=8")

    @property
    def obstacles(self) -> int:
        """How many cells are obstacles."""
        return int(self.density * self.size**2)

    @property
    def name(self) -> str:
        return "camar:routing"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"agent_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(2 + 2 * self.shown, 2, discrete=False),) * self.count

    @property
    def shown(self) -> int:
        """How many discs an agent is shown."""
        return min(self.near, self.count + len(border(self.size)) + 8 * self.obstacles - 1)

    @property
    def joint(self) -> int:
        return 6 * self.count

    def open(self, width: int) -> JointEnvironment:
        return _Routes(self, width)


def centres(size: int) -> Floats:
    """Of all cells, `[size^2, 2]`, around 0."""
    along = (np.arange(size) - (size - 1) / 2) * CELL
    found: Floats = np.stack(np.meshgrid(along, along), -1).reshape(-1, 2)
    return found


def around(centre: Floats, side: float, discs: int) -> Floats:
    """Places of discs along the sides of a square, `discs` on each, `[4 * discs, 2]`."""
    share = np.arange(discs) / discs * side - side / 2
    half = np.full(discs, side / 2)
    sides = ((share, half), (half, -share), (-share, -half), (-half, share))
    found: Floats = centre + np.concatenate([np.stack(one, -1) for one in sides])
    return found


def border(size: int) -> Floats:
    """The discs around the field."""
    return around(np.zeros(2), size * CELL, 2 * size)


def drawn_map(world: Routing, draw: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Discs of a map `[L, 2]`, and which cells are free."""
    order = draw.permutation(world.size**2)
    blocked, free = np.split(order, [world.obstacles])
    walls = [around(one, CELL, 2) for one in centres(world.size)[blocked]]
    return np.concatenate([*walls, border(world.size)]), np.sort(free)


@lru_cache(maxsize=256)
def _kept_map(world: Routing, number: int) -> tuple[Floats, NDArray[np.int64]]:
    return drawn_map(world, Key.of(number).derive("map").numpy())


@lru_cache(maxsize=4096)
def _tree(world: Routing, number: int, cell: int) -> Tree:
    """Routes of a map to a cell from everywhere."""
    half = world.size * CELL / 2 - AGENT - OBSTACLE
    return Tree.grown(
        centres(world.size)[cell],
        Discs(_kept_map(world, number)[0], AGENT + OBSTACLE),
        half,
        draws=400,
        key=Key.of(number).derive("routes", cell),
    )


@lru_cache(maxsize=65536)
def route(world: Routing, number: int, start: int, goal: int) -> Floats:
    """The points from one cell to another of a kept map, `[P, 2]`, the goal last; it alone where none is found."""
    found = _tree(world, number, goal).route(centres(world.size)[start])
    return centres(world.size)[[goal]] if found is None else found[1:]


class _Routes(JointEnvironment):
    """Places, speeds and goals `[B, n, 2]`, discs of the map `[B, L, 2]`."""

    def __init__(self, world: Routing, width: int) -> None:
        self.world, count = world, world.count
        self.place, self.speed, self.goal = (np.zeros((width, count, 2)) for _ in range(3))
        self.place += np.arange(count)[:, None]  # Idle copies are apart, so that nothing is divided by 0.
        self.discs = np.zeros((width, 8 * world.obstacles + len(border(world.size)), 2)) + 100.0
        self.time, self.pairs = np.zeros(width, np.int64), np.triu_indices(count, 1)
        self.routes: list[list[Floats]] = [[] for _ in range(width)]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        world, cells = self.world, centres(self.world.size)
        for slot, seed in zip(slots, seeds, strict=True):
            draw = drawn_from(seed)
            number = int(draw.integers(world.maps)) if world.maps else 0
            self.discs[slot], free = _kept_map(world, number) if world.maps else drawn_map(world, draw)
            start, goal = draw.permutation(free)[: 2 * world.count].reshape(2, -1)
            self.place[slot], self.goal[slot] = cells[start], cells[goal]
            self.speed[slot], self.time[slot] = 0.0, 0
            pairs = zip(start.tolist(), goal.tolist(), strict=True) if world.guide else ()
            self.routes[slot] = [route(world, number, *pair) for pair in pairs]
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world = self.world
        push = world.accel * np.clip(np.stack(actions, 1).astype(np.float64), -1, 1)
        before, touched = self._far(), np.zeros(self.place.shape[:2], bool)
        for _ in range(world.frames):
            force, hit = self._contacts()
            touched |= hit
            speed = (1 - DAMPING) * self.speed + (force + push) * TICK
            fast = np.sqrt((speed**2).sum(-1, keepdims=True))
            self.speed = np.where(fast > FASTEST, speed / np.maximum(fast, 1e-300) * FASTEST, speed)
            self.place = self.place + self.speed * TICK
        far = self._far()
        there = far < world.goal
        every = there.all(1, keepdims=True)
        paid = 0.5 * there + 0.5 * every - 1.0 * touched + world.shaping * (before - far)
        self.time = self.time + live
        done = np.repeat(every, world.count, 1)
        over = np.repeat((self.time >= world.length)[:, None], world.count, 1)
        return Moved(paid, done, over & ~done)

    def _far(self) -> Floats:
        """How far everybody is from its goal, `[B, n]`."""
        gap = self.place - self.goal
        far: Floats = np.sqrt((gap**2).sum(-1))
        return far

    def _contacts(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Forces of all that touch on each agent, `[B, n, 2]`, and whether any does."""
        one, other = self.pairs
        force, hit = repelled(self.place[:, :, None] - self.discs[:, None], AGENT + OBSTACLE)
        total: Floats = force.sum(2)
        touched = np.asarray(hit.any(2))
        mutual, met = repelled(self.place[:, one] - self.place[:, other], 2 * AGENT)
        for pair in range(len(one)):
            for agent, sign in ((one[pair], 1.0), (other[pair], -1.0)):
                total[:, agent] += sign * mutual[:, pair]
                touched[:, agent] |= met[:, pair]
        return total, touched

    def aims(self) -> Floats:
        """What each agent is shown the way to: its goal, or the next point of its route, `[B, n, 2]`."""
        if not self.world.guide:
            return self.goal
        found = self.goal.copy()
        for slot, routes in enumerate(self.routes):
            for agent, points in enumerate(routes):
                here = self.place[slot, agent]
                while len(points) > 1 and float(np.hypot(*(points[0] - here))) < REACHED:
                    points = points[1:]
                routes[agent], found[slot, agent] = points, points[0]
        return found

    def seen(self) -> list[NDArray[np.float32]]:
        world, count = self.world, self.world.count
        width = len(self.time)
        things = np.concatenate([self.place, self.discs], 1)
        radius = np.where(np.arange(things.shape[1]) < count, AGENT, OBSTACLE)
        ways, found = self.aims() - self.place, []
        for agent in range(count):
            gap = things - self.place[:, [agent]]
            far = np.sqrt((gap**2).sum(-1))
            far[:, agent] = np.inf
            nearest = np.argsort(far, 1, kind="stable")[:, : world.shown]
            apart, size = np.take_along_axis(far, nearest, 1), radius[nearest]
            gap = np.take_along_axis(gap, nearest[..., None], 1)
            surface = gap * (1 - (world.window + size) / np.maximum(apart, 1e-300))[..., None] / (world.window - AGENT)
            shown = np.where((np.abs(apart - AGENT - size) < world.window)[..., None], surface, 0.0)
            way, length = ways[:, agent], np.sqrt((ways[:, agent] ** 2).sum(-1, keepdims=True))
            aim = way / np.where(length > world.window, length, world.window)
            found.append(np.concatenate([aim, shown.reshape(width, -1)], 1).astype(np.float32))
        return found

    def state(self) -> NDArray[np.float32]:
        parts = (self.place, self.speed, self.goal)
        return np.concatenate([part.reshape(len(self.time), -1) for part in parts], 1).astype(np.float32)


def repelled(gap: Floats, touch: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Forces `[.., 2]` between discs whose centres are `gap` apart, and whether they touch."""
    apart = np.sqrt((gap**2).sum(-1))
    hit = apart <= touch
    depth = np.logaddexp(0, (touch - apart) / MARGIN) * MARGIN
    force = np.where(hit[..., None], gap * (CONTACT * depth / np.maximum(apart, 1e-8))[..., None], 0.0)
    return force, hit

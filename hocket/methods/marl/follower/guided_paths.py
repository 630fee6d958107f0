"""Lifelong path finding in which every agent is shown a path of its own, cheapest on costs that keep apart from others.

After Skrynnik et al., Learn to Follow (arXiv:2310.01207), with the costs of the authors' planner
(github.com/AIRI-Institute/learn-to-follow, `follower_cpp/planner.h`): each agent plans for itself at every step, with a
static cost on cells that are near to all others and a dynamic one on cells where it has seen others on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import Moved, Seat
from hocket.zoo.joint.grids import STEPS, Free
from hocket.zoo.joint.paths import MOVES, LifelongPaths, PathCourse

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PlannedPaths(LifelongPaths):
    """`LifelongPaths` in which an agent sees, in place of a guide, its path: a window of the cells on it, and its next.

    Entering a cell costs `1 + crowd (centrality - 1)` (see `centrality`), and `avoid` more for every time that the
    agent has seen another there since its goal was set. The path is a cheapest one to its goal, made anew at every
    step; of equal ones it takes the step that comes first among north, south, west and east. What an agent sees ends in
    the next step as a one-hot of those four. The joint state is every agent's cell, goal and next cell, over the size.

    Attributes:
        crowd: the share of the static cost. avoid: the dynamic cost of a sighting. Of the authors' planner both are 1.
    """

    guide: bool = False
    crowd: float = 1.0
    avoid: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crowd < 0 or self.avoid < 0:
            raise ConfigurationError(
                f"task {self.name}: costs cannot be negative; crowd and avoid are {self.crowd} and {self.avoid}"
            )

    @property
    def name(self) -> str:
        return "mapf:planned"

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3 * (2 * self.sight + 1) ** 2 + 6, len(MOVES)),) * self.count

    @property
    def joint(self) -> int:
        return 6 * self.count

    def open(self, width: int) -> PlansAhead:
        return PlansAhead(self, width)


class PlansAhead(PathCourse):
    """Many copies; `costs` `[B, n, H, W]` of entering each cell, `ahead` the cheapest cost from there to the goal.

    `sightings` `[B, n, H, W]` counts how often each agent saw another in a cell since its goal was set.
    """

    world: PlannedPaths

    def __init__(self, world: PlannedPaths, width: int) -> None:
        super().__init__(world, width)
        self.costs = np.ones((width, world.count, world.size, world.size))
        self.ahead = np.zeros_like(self.costs)
        self.static = np.ones((width, world.size, world.size))
        self.sightings = np.zeros_like(self.costs)
        self.path: list[NDArray[np.int64]] = []
        self._stale = np.ones(width, bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        failed = super().reset(slots, seeds)
        for slot in slots:
            free = self.free[slot]
            self.static[slot] = 1.0 + self.world.crowd * (centrality(free.tobytes(), free.shape[0]) - 1.0)
        rows = np.array(slots, np.int64)
        self.sightings[rows] = 0.0
        self._look(rows)
        return failed

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        before = self.goal.copy()
        moved = super().step(actions, live)
        self.sightings[(self.goal != before).any(-1)] = 0.0
        self._look(np.flatnonzero(live))
        return moved

    def _look(self, rows: NDArray[np.int64]) -> None:
        """Counts the cells of the agents that each one sees now, in these copies."""
        place = self.place[rows]
        near = np.abs(place[:, :, None] - place[:, None]).max(-1) <= self.world.sight
        near &= ~np.eye(self.world.count, dtype=bool)
        which, who, other = np.nonzero(near)
        np.add.at(self.sightings, (rows[which], who, place[which, other, 0], place[which, other, 1]), 1.0)
        self._stale[rows] = True

    def plan(self) -> list[NDArray[np.int64]]:
        """The cells of every agent's path that follow its own, as far as a window shows, `[B, n, 2]` each."""
        if self._stale.any():
            rows = np.flatnonzero(self._stale)
            self._replan(rows)
            self._stale[rows] = False
            here, self.path = self.place, []
            for _ in range(2 * self.world.sight + 1):
                here = self._following(here)
                self.path.append(here)
        return self.path

    def _replan(self, rows: NDArray[np.int64]) -> None:
        world, size = self.world, self.world.size
        costs = self.static[rows][:, None] + world.avoid * self.sightings[rows]
        self.costs[rows] = costs
        shape = (len(rows), world.count, size, size)
        self.ahead[rows] = cheapest(costs, np.broadcast_to(self.free[rows][:, None], shape), self.goal[rows])

    def _following(self, here: NDArray[np.int64]) -> NDArray[np.int64]:
        """The next cell of each path after `here` `[B, n, 2]`; the goal stays."""
        size, agents = self.world.size, np.arange(self.world.count)[None]
        options, totals = [], []
        for move in STEPS:
            there = here + np.array(move)
            inside = ((there >= 0) & (there < size)).all(-1)
            there = np.where(inside[..., None], there, here)
            spot = (self._rows, agents, there[..., 0], there[..., 1])
            options.append(there)
            totals.append(np.where(inside, self.costs[spot] + self.ahead[spot], np.inf))
        best = np.stack(totals).argmin(0)
        found = np.take_along_axis(np.stack(options), best[None, ..., None], 0)[0]
        return np.where((here == self.goal).all(-1)[..., None], here, found)

    def seen(self) -> list[NDArray[np.float32]]:
        path, count, sight = self.plan(), self.world.count, self.world.sight
        marked = np.zeros((len(self.time), count, 2 * sight + 1, 2 * sight + 1), np.float32)
        for cells in path:
            down, right = np.moveaxis(cells - self.place + sight, -1, 0)
            inside = (down >= 0) & (down <= 2 * sight) & (right >= 0) & (right <= 2 * sight)
            which, who = np.nonzero(inside)
            marked[which, who, down[inside], right[inside]] = 1.0
        step = (path[0] - self.place)[:, :, None] == np.array(STEPS)
        told = [marked.reshape(len(marked), count, -1), step.all(-1).astype(np.float32)]
        return [
            np.concatenate([sights, *(part[:, number] for part in told)], 1)
            for number, sights in enumerate(super().seen())
        ]

    def state(self) -> NDArray[np.float32]:
        told = np.concatenate([self.place, self.goal, self.plan()[0]], -1) / self.world.size
        return told.reshape(len(self.time), -1).astype(np.float32)


def cheapest(costs: Floats, free: NDArray[np.bool_], goal: NDArray[np.int64]) -> Floats:
    """The least cost from each cell to the goal, `[.., H, W]` like `costs` of entering one; infinite without a way.

    By Bellman's sweeps until nothing changes, for all maps at once. `goal` `[.., 2]`; costs must be positive.
    """
    lead, (height, width) = costs.shape[:-2], costs.shape[-2:]
    value = np.full((int(np.prod(lead)), height + 2, width + 2), np.inf)
    flat = goal.reshape(-1, 2)
    value[np.arange(len(flat)), flat[:, 0] + 1, flat[:, 1] + 1] = 0.0
    price = np.full(value.shape, np.inf)
    price[:, 1:-1, 1:-1] = np.where(free, costs, np.inf).reshape(-1, height, width)
    open_cell = free.reshape(-1, height, width)
    while True:
        through = value + price
        best = np.minimum(
            np.minimum(through[:, :-2, 1:-1], through[:, 2:, 1:-1]),
            np.minimum(through[:, 1:-1, :-2], through[:, 1:-1, 2:]),
        )
        new = np.minimum(value[:, 1:-1, 1:-1], np.where(open_cell, best, np.inf))
        if np.array_equal(new, value[:, 1:-1, 1:-1]):
            return new.reshape(costs.shape)
        value[:, 1:-1, 1:-1] = new


@lru_cache(maxsize=4096)
def centrality(cells: bytes, height: int) -> Floats:
    """The largest mean distance of all cells over a cell's own mean distance to those that it reaches, `[H, W]`.

    At least 1 and larger in the middle of a map; 1 for a blocked cell and for one that reaches no other. `cells` are
    the bytes of a map `[H, W]` bool, true where one may stand.
    """
    free: Free = np.frombuffer(cells, bool).reshape(height, -1)
    spots = np.argwhere(free)
    close = (np.abs(spots[:, None] - spots[None]).sum(-1) == 1).astype(np.float64)
    steps = np.zeros(close.shape)
    reached = front = np.eye(len(spots), dtype=bool)
    for length in range(1, len(spots)):
        front = (front @ close > 0) & ~reached
        if not front.any():
            break
        steps[front] = length
        reached = reached | front
    others = reached.sum(1) - 1
    mean = steps.sum(1) / np.maximum(others, 1)
    value = np.ones(free.shape)
    value[free] = np.where(others > 0, mean.max(initial=0.0) / np.maximum(mean, 1e-300), 1.0)
    return value

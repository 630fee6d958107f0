"""Grids with obstacles: which cells hang together, distances, and shortest paths by A* on costs."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]
Free = NDArray[np.bool_]
"""Where one may stand, `[H, W]`."""

STEPS: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""North, south, west, east."""


def distances(free: Free, goal: Cell) -> NDArray[np.int64]:
    """The number of steps from each cell to `goal`, `[H, W]`; -1 where there is no way."""
    height, width = free.shape
    steps = np.full((height, width), -1, np.int64)
    padded = np.zeros((height + 2, width + 2), bool)
    front = np.zeros_like(padded)
    front[goal[0] + 1, goal[1] + 1] = free[goal]
    padded[1:-1, 1:-1] = free
    count = 0
    while front.any():
        steps[front[1:-1, 1:-1]] = count
        padded &= ~front
        wider = np.zeros_like(front)
        wider[1:] |= front[:-1]
        wider[:-1] |= front[1:]
        wider[:, 1:] |= front[:, :-1]
        wider[:, :-1] |= front[:, 1:]
        front = wider & padded
        count += 1
    return steps


def largest_part(free: Free) -> Free:
    """The largest set of cells that hang together, of equal ones the first."""
    left, best = free.copy(), np.zeros_like(free)
    while left.any():
        start = tuple(int(index) for index in np.argwhere(left)[0])
        part = distances(left, (start[0], start[1])) >= 0
        if part.sum() > best.sum():
            best = part
        left &= ~part
    return best


def shortest(
    free: Free, start: Cell, goal: Cell, cost: Callable[[Cell], float] | NDArray[np.float64] | None = None
) -> list[Cell]:
    """The cheapest path from `start` to `goal`, both included, by A*; empty where there is none.

    Entering a cell costs what `cost` says of it, at least 1 everywhere; None is 1. Without costs the path is a
    shortest. Of equal paths it is always the same one.
    """
    price: Callable[[Cell], float]
    if cost is None:
        price = _one
    elif isinstance(cost, np.ndarray):
        table = cost

        def price(cell: Cell) -> float:
            return float(table[cell])

    else:
        price = cost
    height, width = free.shape
    best, before = {start: 0.0}, {start: start}
    waiting: list[tuple[float, float, Cell]] = [(_far(start, goal), 0.0, start)]
    while waiting:
        _, spent, cell = heapq.heappop(waiting)
        if cell == goal:
            break
        if spent > best[cell]:
            continue
        for down, right in STEPS:
            there = (cell[0] + down, cell[1] + right)
            if not (0 <= there[0] < height and 0 <= there[1] < width and free[there]):
                continue
            total = spent + price(there)
            if total < best.get(there, np.inf):
                best[there], before[there] = total, cell
                heapq.heappush(waiting, (total + _far(there, goal), total, there))
    if goal not in best:
        return []
    path = [goal]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


def _one(cell: Cell) -> float:
    return 1.0


def _far(cell: Cell, goal: Cell) -> float:
    """At most what is left, as no cell costs less than 1."""
    return float(abs(cell[0] - goal[0]) + abs(cell[1] - goal[1]))

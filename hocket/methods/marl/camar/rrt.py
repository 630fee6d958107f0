"""Routes among discs by RRT* (Karaman and Frazzoli, arXiv:1105.1186): a tree that grows by chance, ever shorter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key

Floats = NDArray[np.float64]

STRIDE = 0.4
"""The longest new edge, and how near nodes are that may become each other's parents."""


@dataclass(frozen=True, eq=False)
class Discs:
    """Obstacles: centres `[L, 2]`, and how near the centre of whoever moves may not come to them."""

    centres: Floats
    clearance: float

    def open(self, starts: Floats, end: Floats) -> NDArray[np.bool_]:
        """Which of the straight ways from `starts` `[K, 2]` to `end` `[2]` touch none."""
        way = end - starts
        length = np.maximum((way**2).sum(-1), 1e-300)
        gap = self.centres[None] - starts[:, None]
        share = np.clip((gap * way[:, None]).sum(-1) / length[:, None], 0, 1)
        off = gap - share[..., None] * way[:, None]
        found: NDArray[np.bool_] = np.all((off**2).sum(-1) >= self.clearance**2, axis=1)
        return found


@dataclass(frozen=True, eq=False)
class Tree:
    """Ways to the first node from all others: nodes `[N, 2]`, where each leads `[N]`, and how far it is, `[N]`."""

    nodes: Floats
    parent: NDArray[np.int64]
    cost: Floats
    discs: Discs

    @classmethod
    def grown(cls, root: Floats, discs: Discs, half: float, *, draws: int, key: Key) -> Self:
        """A tree of so many draws of points with both numbers in [-half, half].

        A new node leads to whichever near one makes its way shortest, and near ones lead to it where that is shorter.
        The first draws of a longer growth are those of a shorter one.
        """
        noise = key.numpy()
        nodes, parent, cost = np.zeros((draws + 1, 2)), np.zeros(draws + 1, np.int64), np.zeros(draws + 1)
        nodes[0], count = root, 1
        for _ in range(draws):
            drawn = noise.uniform(-half, half, 2)
            gap = drawn - nodes[:count]
            far = np.sqrt((gap**2).sum(-1))
            closest = int(far.argmin())
            point = nodes[closest] + gap[closest] * min(1.0, STRIDE / max(far[closest], 1e-300))
            apart = np.sqrt(((nodes[:count] - point) ** 2).sum(-1))
            near = np.flatnonzero(apart <= STRIDE + 1e-12)
            near = near[discs.open(nodes[near], point)]
            if not len(near):
                continue
            best = int(near[(cost[near] + apart[near]).argmin()])
            nodes[count], parent[count], cost[count] = point, best, cost[best] + apart[best]
            for other in near[cost[count] + apart[near] < cost[near] - 1e-12].tolist():
                _shorten(parent[: count + 1], cost[: count + 1], other, cost[count] + apart[other])
                parent[other] = count
            count += 1
        return cls(nodes[:count], parent[:count], cost[:count], discs)

    def route(self, start: Floats) -> Floats | None:
        """The points from `start` to the root, both included, `[P, 2]`; None where no node is in sight."""
        apart = np.sqrt(((self.nodes - start) ** 2).sum(-1))
        sight = np.flatnonzero(self.discs.open(self.nodes, start))
        if not len(sight):
            return None
        node = int(sight[(apart[sight] + self.cost[sight]).argmin()])
        points = [start, self.nodes[node]]
        while node:
            node = int(self.parent[node])
            points.append(self.nodes[node])
        return np.stack(points)


def _shorten(parent: NDArray[np.int64], cost: Floats, node: int, now: float) -> None:
    """Makes a node's way `now` long, and those that lead through it shorter by as much."""
    saved, waiting = cost[node] - now, [node]
    while waiting:
        one = waiting.pop()
        cost[one] -= saved
        waiting += [int(child) for child in np.flatnonzero(parent == one) if child != one and child]


def length(points: Floats) -> float:
    """Of a route `[P, 2]`."""
    return float(np.sqrt((np.diff(points, axis=0) ** 2).sum(-1)).sum())

"""A sum tree: draws places in proportion to their priorities, in the logarithm of their number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class SumTree:
    """Priorities of `size` places. A node is the sum of its two children, so any order of writing gives the same bits.

    Attributes:
        nodes: `[2 L]` float64, the root at 1 and the leaves from L, the first power of 2 that is at least `size`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.leaves = 1 << max(size - 1, 0).bit_length()
        self.nodes = np.zeros(2 * self.leaves)

    @property
    def priorities(self) -> NDArray[np.float64]:
        """A view of the priorities, `[size]`."""
        return self.nodes[self.leaves : self.leaves + self.size]

    def put(self, places: NDArray[Any], priorities: NDArray[Any]) -> None:
        """Sets the priorities of places `[M]`; of a place that is listed twice the last one counts."""
        self.nodes[self.leaves + places] = priorities
        above = np.unique((self.leaves + places) >> 1)
        while len(above) and above[0] >= 1:
            self.nodes[above] = self.nodes[2 * above] + self.nodes[2 * above + 1]
            # Sorted already, so that equal parents stand side by side.
            above = above >> 1
            above = above[np.append(True, above[1:] != above[:-1])]

    def draw(self, uniforms: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Places at these quantiles `[M]` in [0, 1), and their shares of the whole."""
        total = self.nodes[1]
        mass, node = uniforms * total, np.ones(len(uniforms), np.int64)
        while node[0] < self.leaves:
            left = self.nodes[2 * node]
            right = (mass >= left) & (self.nodes[2 * node + 1] > 0)
            mass = np.where(right, mass - left, mass)
            node = 2 * node + right
        return node - self.leaves, self.nodes[node] / total

"""Path finding to one goal each, in the manner of POGEMA's one-shot problems (Skrynnik et al., arXiv:2407.14931)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.worlds import Moved
from hocket.zoo.joint.paths import LifelongPaths, PathCourse


@dataclass(frozen=True)
class OneShotPaths(LifelongPaths):
    """`LifelongPaths` in which everybody has one goal, and no two the same.

    Whoever reaches its goal earns 1, leaves the grid and has ended; the others play on. With `stay` nobody leaves:
    everybody earns 1 and ends at once when all stand on their goals. These are upstream's `finish` and `nothing`. A
    limit of `length` steps truncates whoever is left.

    Attributes:
        stay: whether those who arrive stay in the others' way.
    """

    stay: bool = False

    @property
    def name(self) -> str:
        return "mapf:once"

    def open(self, width: int) -> OneShotCourse:
        return OneShotCourse(self, width)


class OneShotCourse(PathCourse):
    """Many copies; see `PathCourse`."""

    world: OneShotPaths

    def _begin(self, slot: int, key: Key) -> None:
        count, cells = self.world.count, self.cells[slot]
        self.present[slot] = True
        # The cells that follow the first ones in the order by which agents were placed.
        order = key.derive("place").numpy().permutation(len(cells))[count : 2 * count]
        for number, goal in enumerate(cells[order]):
            self._aim(slot, number, goal)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        self._move(actions, live)
        there = (self.place == self.goal).all(-1) & live[:, None]
        over = np.repeat(there.all(1)[:, None], self.world.count, 1) if self.world.stay else there & self.present
        if not self.world.stay:
            self.present &= ~there
        self.time = self.time + live
        late = (self.time >= self.world.length)[:, None] & ~over
        return Moved(over.astype(np.float64), over, late)

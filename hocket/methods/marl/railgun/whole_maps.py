"""Path finding seen from above: one commander is shown the map, and names a move for every cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.worlds import Moved, Seat
from hocket.methods.marl.railgun.network import CellMoves, MapSight
from hocket.methods.marl.railgun.planner import planned
from hocket.zoo.joint.grids import distances
from hocket.zoo.joint.one_shot_paths import OneShotCourse, OneShotPaths
from hocket.zoo.joint.paths import MOVES

Ints = NDArray[np.int64]

CHANNELS = 10
"""Whether one may stand in a cell; whether an agent does, and of this agent: which of four steps lead nearer to its
goal, rows and columns to the goal over the size, and steps to the goal over twice the size; whether it is a goal."""

FREE, AGENT, NEARER, TOWARD, FAR, GOAL = 0, 1, slice(2, 6), slice(6, 8), 8, 9


@dataclass(frozen=True)
class WholeMap(OneShotPaths):
    """`OneShotPaths` in which nobody leaves, played by one commander.

    It is shown the whole map, `CHANNELS` numbers a cell, and names a move for every cell, of which those under agents
    count. All agents must stand on their goals at the same time, which pays 1. The joint state is every agent's cell
    and goal, over the size.
    """

    size: int = 16
    count: int = 8
    stay: bool = True

    @property
    def name(self) -> str:
        return "mapf:whole"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("commander",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        cells = self.size**2
        shape = (CHANNELS, self.size, self.size)
        form, sight = CellMoves(cells, len(MOVES)), MapSight(CHANNELS, len(MOVES))
        return (Seat(CHANNELS * cells, len(MOVES) * cells, shape=shape, action_form=form, sight_form=sight),)

    @property
    def teacher(self) -> Planner:
        """Who moves agents by a rule."""
        return Planner(self.size)

    def open(self, width: int) -> WholeCourse:
        return WholeCourse(self, width)


class WholeCourse(OneShotCourse):
    """Many copies; see `PathCourse`."""

    world: WholeMap

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        moves = np.take_along_axis(actions[0], self._cells(self.place), 1)
        moved = super().step(list(moves.T), live)
        return replace(
            moved,
            rewards=moved.rewards[:, :1],
            terminated=moved.terminated[:, :1],
            truncated=moved.truncated[:, :1],
        )

    def _cells(self, place: Ints) -> Ints:
        return place[..., 0] * self.world.size + place[..., 1]

    def allowed(self) -> list[NDArray[np.bool_]]:
        """Cells without an agent stay as they are."""
        width, cells = len(self.time), self.world.size**2
        mask = np.zeros((width, cells, len(MOVES)), bool)
        mask[..., 0] = True
        mask[self._rows, self._cells(self.place)] = True
        return [mask.reshape(width, -1)]

    def seen(self) -> list[NDArray[np.float32]]:
        width, size = len(self.time), self.world.size
        layers = np.zeros((width, size, size, CHANNELS), np.float32)
        here = (self._rows, self.place[..., 0], self.place[..., 1])
        agents = np.arange(self.world.count)[None]
        layers[..., FREE] = self.free
        layers[*here, AGENT] = 1.0
        layers[*here, NEARER] = self._guide()
        layers[*here, TOWARD] = (self.goal - self.place) / size
        layers[*here, FAR] = self.ways[self._rows, agents, self.place[..., 0], self.place[..., 1]] / (2 * size)
        layers[self._rows, self.goal[..., 0], self.goal[..., 1], GOAL] = 1.0
        return [layers.transpose(0, 3, 1, 2).reshape(width, -1)]


@dataclass(frozen=True)
class Planner:
    """A controller that moves agents by `planned`, from what a commander is shown.

    Attributes:
        size: rows and columns.
    """

    size: int
    name: str = "planner"
    version: int = 0
    draws: int = 1

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        **_: Any,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Moves of all cells `[B, H W]`, 0 where no agent is, and log-probs 0 `[B]`."""
        size = self.size
        layers = observations.reshape(len(observations), CHANNELS, size, size)
        actions = np.zeros((len(layers), size, size), np.int64)
        for number, layer in enumerate(layers):
            place = np.argwhere(layer[AGENT] > 0)
            if not len(place):  # A copy that is idle.
                continue
            free = layer[FREE] > 0
            offset = np.rint(layer[TOWARD][:, place[:, 0], place[:, 1]].T * size).astype(np.int64)
            ways = [_ways(free.tobytes(), size, (int(row), int(column))) for row, column in place + offset]
            draw = np.random.default_rng(int(uniforms[number, 0] * 2**53))
            steps = planned(place, ways, draw) - place
            actions[number, place[:, 0], place[:, 1]] = (steps[:, None] == MOVES).all(-1).argmax(1)
        return actions.reshape(len(layers), -1), np.zeros(len(layers), np.float32)


@lru_cache(maxsize=8192)
def _ways(cells: bytes, size: int, goal: tuple[int, int]) -> Ints:
    return distances(np.frombuffer(cells, bool).reshape(size, size), goal)

"""A room of pixels with a wall and a door, and demonstrations of the shortest way through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key

SIDE = 5
WALL = 2
"""The column of the wall, which has a door of one cell."""
ACTIONS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""Rows and columns of a move: stay, up, down, left, right."""
MOVES = 10
"""Moves of an episode at most."""

Frames = NDArray[np.float32]
"""Pictures `[B, 3, SIDE, SIDE]` in [0, 1]: red is the agent, green the wall, blue the goal."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Room:
    """B rooms: the cells of agent and goal `[B, 2]`, and the row of the door `[B]`."""

    agent: Ints
    goal: Ints
    door: Ints

    def frames(self) -> Frames:
        """What is seen."""
        rows = np.arange(len(self.door))
        result = np.zeros((len(rows), 3, SIDE, SIDE), np.float32)
        result[rows, 0, self.agent[:, 0], self.agent[:, 1]] = 1.0
        result[:, 1, :, WALL] = 1.0
        result[rows, 1, self.door, WALL] = 0.0
        result[rows, 2, self.goal[:, 0], self.goal[:, 1]] = 1.0
        return result

    def moved(self, action: Ints) -> Room:
        """After one move each; what would lead into the wall or out of the room changes nothing."""
        there = self.agent + np.array(ACTIONS)[action]
        inside = ((there >= 0) & (there < SIDE)).all(1)
        walled = (there[:, 1] == WALL) & (there[:, 0] != self.door)
        return Room(np.where((inside & ~walled)[:, None], there, self.agent), self.goal, self.door)

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Where the agent is at the goal, `[B]`."""
        return np.asarray((self.agent == self.goal).all(1))

    def shortest(self) -> Ints:
        """The first move of a shortest way: to the door's row, through the door, to the goal; else stay. `[B]`."""
        beyond = self.agent[:, 1] >= WALL
        row = np.where(beyond & (self.agent[:, 1] > WALL), self.goal[:, 0], self.door)
        column = np.where(beyond, self.goal[:, 1], WALL)
        down, right = row - self.agent[:, 0], column - self.agent[:, 1]
        through = self.agent[:, 1] == WALL  # In the door it can go nowhere but on.
        vertical = np.where(down > 0, 2, 1)
        choice = np.where((down != 0) & ~through, vertical, np.where(right > 0, 4, 0))
        return np.asarray(choice, np.int64)


def rooms(seeds: NDArray[np.uint64] | list[int]) -> Room:
    """The first states of episodes: the agent left of the wall, the goal right of it."""
    drawn = np.stack([Key.of(int(seed)).derive("room").numpy().integers(0, SIDE, 5) for seed in seeds])
    agent = np.stack([drawn[:, 0], drawn[:, 1] % WALL], 1)
    goal = np.stack([drawn[:, 2], SIDE - 1 - drawn[:, 3] % (SIDE - 1 - WALL)], 1)
    return Room(agent.astype(np.int64), goal.astype(np.int64), drawn[:, 4].astype(np.int64))


class Records(NamedTuple):
    """Moves that were made: frames before and after `[N, 3, SIDE, SIDE]`, the moves `[N]`, and where the goal was
    reached by them `[N]`."""

    before: Frames
    action: Ints
    after: Frames
    reached: NDArray[np.bool_]

    def joined(self, other: Records) -> Records:
        """Both."""
        return Records(
            np.concatenate([self.before, other.before]),
            np.concatenate([self.action, other.action]),
            np.concatenate([self.after, other.after]),
            np.concatenate([self.reached, other.reached]),
        )


def demonstrations(key: Key, count: int) -> Records:
    """All moves of `count` shortest ways, one way after the other."""
    state = rooms([int(seed) for seed in key.numpy().integers(0, 2**31, count)])
    steps, going = list[Records](), list[NDArray[np.bool_]]()
    while not state.reached.all():
        action = state.shortest()
        after = state.moved(action)
        steps.append(Records(state.frames(), action, after.frames(), after.reached))
        going.append(~state.reached)
        state = after
    made = np.stack(going, 1)
    return Records(*(np.stack(columns, 1)[made] for columns in zip(*steps, strict=True)))

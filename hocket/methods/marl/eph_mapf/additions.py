"""What is added to action values in play: priorities, shortest paths, and escapes. One map at a time.

The rules follow the authors' code. Ours are: who stays has its cell, so no conflict is left for the world to resolve;
escapes are planned in the order of values, each around the next cells of those before it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hocket.zoo.joint.grids import shortest
from hocket.zoo.joint.paths import MOVES

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Around = Literal["all", "arrived", "nobody"]
"""Who is an obstacle of a planned path: all others, those on their goals, or nobody."""

PAST = 4
"""Moments that tell whether an agent is stuck."""


@dataclass(frozen=True)
class Additions:
    """Which rules a player adds to its action values.

    Attributes:
        priorities: whether action values order those who would collide; else the world lets none of them move.
        around: who a path leads around that an agent follows while nobody under way is near; None for no paths.
        radius: cells to each side that are near. escape: who an escape leads around; None for no escapes.
    """

    priorities: bool = True
    around: Around | None = None
    radius: int = 2
    escape: Around | None = None


@dataclass(frozen=True, eq=False)
class Moment:
    """A map and who is where: `free` `[H, W]`, `place` and `goal` `[n, 2]`; `past` `[PAST, n, 2]`, the newest first."""

    free: NDArray[np.bool_]
    place: Ints
    goal: Ints
    past: Ints = field(default_factory=lambda: np.zeros((0, 0, 2), np.int64))

    def arrived(self) -> NDArray[np.bool_]:
        """Who stands on its goal, `[n]`."""
        there: NDArray[np.bool_] = (self.place == self.goal).all(-1)
        return there

    def follow(self, agent: int, around: Around, more: Collection[Any] = ()) -> int | None:
        """The first move of a shortest path of an agent, around others and `more` cells; None without a path."""
        free = self.free.copy()
        obstacles = {"all": np.ones(len(self.place), bool), "arrived": self.arrived(), "nobody": False}[around]
        for row, column in self.place[obstacles & (np.arange(len(self.place)) != agent)]:
            free[row, column] = False
        for row, column in more:
            free[row, column] = False
        (row, column), (down, right) = self.place[agent].tolist(), self.goal[agent].tolist()
        path = shortest(free, (row, column), (down, right))
        if len(path) < 2:
            return None
        step = np.subtract(path[1], path[0])
        return int((step == MOVES).all(1).argmax())

    def stuck(self) -> NDArray[np.bool_]:
        """Who has been in no more than two cells for `PAST` moments, and not on its goal, `[n]`."""
        if len(self.past) < PAST:
            return np.zeros(len(self.place), bool)
        alike: NDArray[np.bool_] = (self.past[:2] == self.past[2:]).all((0, 2)) & ~self.arrived()
        return alike


def moves(moment: Moment, values: Array, rules: Additions) -> Ints:
    """The move of every agent `[n]`, by action values `[n, 5]` and what is added to them."""
    named: Ints = values.argmax(1)
    if rules.around is not None:
        near = _near(moment, rules.radius)
        for agent in np.flatnonzero(~near & ~moment.arrived()).tolist():
            step = moment.follow(agent, rules.around)
            named[agent] = named[agent] if step is None else step
    if rules.priorities:
        named = resolved(moment, named, values)
    if rules.escape is not None:
        named = escaped(moment, named, values, rules.escape)
        named = resolved(moment, named, values) if rules.priorities else named
    return named


def _near(moment: Moment, radius: int) -> NDArray[np.bool_]:
    """Who has somebody under way within `radius`, `[n]`."""
    close = np.abs(moment.place[:, None] - moment.place).max(-1) <= radius
    close &= ~moment.arrived() & ~np.eye(len(close), dtype=bool)
    near: NDArray[np.bool_] = close.any(1)
    return near


def resolved(moment: Moment, named: Ints, values: Array) -> Ints:
    """Moves without conflicts, `[n]`: no cell is shared and no two swap.

    As long as there is a conflict, who has the lower value of its move takes its next best one that leads into no wall:
    of two who would swap, else of all who would enter a cell, unless it is somebody's who stays. A move that an agent
    gave up never comes back, and who stays gives nothing up, so an end is reached within 4 n moves.
    """
    held, actions = values.astype(np.float64), named.copy()
    held[~_open(moment.free, moment.place)] = -np.inf
    agents = np.arange(len(named))
    while True:
        losers = agents[held[agents, actions] == -np.inf]
        if not len(losers):
            losers = _losers(moment.place, moment.place + MOVES[actions], actions, held[agents, actions])
        if not len(losers):
            return actions
        held[losers, actions[losers]] = -np.inf
        actions[losers] = held[losers].argmax(1)


def _open(free: NDArray[np.bool_], place: Ints) -> NDArray[np.bool_]:
    """Which moves lead into no wall, `[n, 5]`."""
    padded = np.pad(free, 1)
    there = place[:, None] + MOVES + 1
    opened: NDArray[np.bool_] = padded[there[..., 0], there[..., 1]]
    return opened


def _losers(place: Ints, aim: Ints, actions: Ints, value: Array) -> Ints:
    """Who must give up its move in the first conflict; nobody where there is none."""
    enters = (aim[:, None] == place).all(-1) & (actions != 0)[:, None]
    swaps = np.argwhere(enters & enters.T)
    if len(swaps):
        first, second = swaps[0]
        return swaps[0, :1] if value[first] < value[second] else np.array([second])
    shared = (aim[:, None] == aim).all(-1)
    crowd = np.flatnonzero(shared.sum(1) > 1)
    if not len(crowd):
        return crowd
    rivals: Ints = np.flatnonzero(shared[crowd[0]])
    winner = rivals[np.where(actions[rivals] == 0, np.inf, value[rivals]).argmax()]
    losers: Ints = rivals[rivals != winner]
    return losers


def escaped(moment: Moment, named: Ints, values: Array, around: Around) -> Ints:
    """The moves `[n]`, of which those of agents that are stuck are planned anew.

    In the order of their best values each takes the first step of a shortest path around others and around the next
    cells of those before it; without a path, its best move into none of these cells, and else it stays.
    """
    actions, taken = named.copy(), set[tuple[int, int]]()
    stuck, opened = moment.stuck(), _open(moment.free, moment.place)
    for agent in np.argsort(-values.max(1), kind="stable").tolist():
        if stuck[agent] and not (moment.place[agent] + MOVES[actions[agent]] == moment.goal[agent]).all():
            step = moment.follow(agent, around, taken)
            if step is None:
                beyond = [tuple(cell) in taken for cell in (moment.place[agent] + MOVES).tolist()]
                best = np.where(opened[agent] & ~np.array(beyond), values[agent], -np.inf)
                step = int(best.argmax()) if np.isfinite(best).any() else 0
            actions[agent] = step
        row, column = (moment.place[agent] + MOVES[actions[agent]] * opened[agent, actions[agent]]).tolist()
        taken.add((row, column))
    return actions

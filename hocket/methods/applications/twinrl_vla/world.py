"""A point that reaches a goal behind a wall with a gate, and a twin of it that was built from a survey with errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]

STRIDE, WIDE = 0.08, 0.1
"""How far a full action goes in the twin, and half the width of the gate."""

GOAL, NEAR = np.array([0.8, 0.0]), 0.12
"""Where the goal is, and how near is there."""

LENGTH = 40
"""Moments of an episode."""

TURNED, WEAKER = 0.3, 0.85
"""By how many radians the real robot's moves are turned, and which share of the twin's length they have."""

GATE, MOVED = 0.4, 0.12
"""The height of the twin's gate, and how much higher the real one is."""

CELLS = (4, 12)
"""Of the region of starts, sideways and up."""

LEFT, RIGHT, TOP = -0.9, -0.3, 0.9
"""The region of starts, from `-TOP` to `TOP`."""


@dataclass(frozen=True)
class Starts:
    """How likely episodes begin in each cell of the region, `CELLS` of them row by row."""

    odds: tuple[float, ...] = ()

    def place(self, seed: int) -> Array:
        """Where an episode begins, `[2]`: a cell by its odds, and evenly within it."""
        rng = Key.of(seed).derive("start").numpy()
        odds = np.array(self.odds) if self.odds else np.full(CELLS[0] * CELLS[1], 1.0)
        cell = int(rng.choice(len(odds), p=odds / odds.sum()))
        share = (np.array([cell % CELLS[0], cell // CELLS[0]]) + rng.random(2)) / CELLS
        return np.array([LEFT, -TOP]) + share * (RIGHT - LEFT, 2 * TOP)


def cells(places: Array) -> NDArray[np.int64]:
    """The cell of each place `[B, 2]` of the region of starts, `[B]`."""
    share = (places - np.array([LEFT, -TOP])) / (RIGHT - LEFT, 2 * TOP)
    column, row = np.clip((share * CELLS).astype(np.int64), 0, np.array(CELLS) - 1).T
    return np.asarray(column + CELLS[0] * row, np.int64)


SHOWN = Starts(tuple(float(cell // CELLS[0] >= CELLS[1] // 2) for cell in range(CELLS[0] * CELLS[1])))
"""The upper half, in which a person has demonstrated."""


@dataclass(frozen=True)
class Reach:
    """A point begins left of a wall, and earns 1 at the goal on the right, which ends the episode.

    Seen are its place, what is left of the time, and the goal, but not the gate. A move into the wall goes up or down
    alone.

    Attributes:
        twin: the simulator. In reality moves are turned and shorter, and the gate is higher, unknown to all.
        starts: where episodes begin.
    """

    twin: bool = False
    starts: Starts = Starts()

    @property
    def name(self) -> str:
        return "reach:twin" if self.twin else "reach"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("arm",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(5, 2, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    @property
    def gate(self) -> float:
        """The height of the middle of the gate."""
        return GATE if self.twin else GATE + MOVED

    @property
    def moves(self) -> Array:
        """What an action does to the place, `[2, 2]`."""
        angle, size = (0.0, STRIDE) if self.twin else (TURNED, STRIDE * WEAKER)
        return size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def open(self, width: int) -> Points:
        return Points(self, width)

    def shown(self, seen: NDArray[np.float32]) -> Array:
        """What a person who knows this world does at `[B, 5]`: to the gate, through it, to the goal; `[B, 2]`."""
        way = self._aim(seen) - seen[:, :2]
        size = np.linalg.norm(self.moves[0])
        step = way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), size)
        return np.asarray(step * size @ np.linalg.inv(self.moves).T, np.float64)

    def _aim(self, seen: NDArray[np.float32]) -> Array:
        place = seen[:, :2].astype(np.float64)
        before, behind = np.array([-0.06, self.gate]), np.array([0.1, self.gate])
        ready = np.abs(place[:, 1] - self.gate) < WIDE / 2
        return np.where(place[:, :1] >= 0, GOAL, np.where(ready[:, None], behind, before))

    def needs(self, seen: NDArray[np.float32]) -> Array:
        """The moments that a person needs from `[B, 5]` to the goal, `[B]`."""
        place, gate = seen[:, :2].astype(np.float64), np.array([0.0, self.gate])
        left = np.linalg.norm(gate - place, axis=1) + np.linalg.norm(GOAL - gate)
        way = np.where(place[:, 0] < 0, left, np.linalg.norm(GOAL - place, axis=1)) - NEAR
        return np.asarray(way / np.linalg.norm(self.moves[0]), np.float64)


class Points(JointEnvironment):
    """The copies; `place` is `[B, 2]`, `time` `[B]`."""

    def __init__(self, world: Reach, width: int) -> None:
        self.world, self.place, self.time = world, np.zeros((width, 2)), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        places = list(slots)
        self.place[places] = [self.world.starts.place(seed) for seed in seeds]
        self.time[places] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        move = np.clip(np.asarray(actions[0], np.float64), -1, 1) @ self.world.moves.T
        after = np.clip(self.place + move, -1, 1)
        crosses = (self.place[:, 0] < 0) != (after[:, 0] < 0)
        share = np.divide(-self.place[:, 0], move[:, 0], out=np.zeros(len(live)), where=crosses)
        blocked = crosses & (np.abs(self.place[:, 1] + share * move[:, 1] - self.world.gate) > WIDE)
        after[blocked, 0] = self.place[blocked, 0]
        self.place = np.where(live[:, None], after, self.place)
        self.time = self.time + live
        there = np.linalg.norm(self.place - GOAL, axis=1) < NEAR
        cut = (self.time >= LENGTH) & ~there
        return Moved(there[:, None].astype(np.float64), there[:, None], cut[:, None])

    def seen(self) -> Sequence[NDArray[np.float32]]:
        left = 1 - self.time[:, None] / LENGTH
        return (np.concatenate([self.place, left, GOAL - self.place], 1).astype(np.float32),)


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 0.97,
    "credit.lam": 0.95,
    "update.lr": 1.5e-3,
    "update.epochs": 6,
    "update.minibatches": 4,
}


def _reach(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"twin": bool}, Reach, _SUGGESTED)


REACH = TaskForm(
    name="reach",
    description="a point that reaches a goal behind a gate, with a twin whose survey has errors",
    make=_reach,
)

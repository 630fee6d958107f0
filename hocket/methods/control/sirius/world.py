"""A point that must pass a gate, and a scripted person who takes over when it makes no progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask

Array = NDArray[np.float64]

STRIDE, WIDE = 0.08, 0.12
"""How far a full action goes, and half the width of the gate."""
GOAL = np.array([0.8, 0.0])


@dataclass(frozen=True)
class Gates:
    """A point begins at the left; a wall at x = 0 has a gate at a height of its own in each episode; the goal is right.

    Seen are the place, the height of the gate, and how far the goal is. A step pays 0 and the goal 1, which ends the
    episode; it is cut after `length` steps. A move into the wall leaves the point where it is. It stands in for tasks
    of manipulation such as threading a needle.
    """

    length: int = 60

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task {self.name}: length must be at least 1")

    @property
    def name(self) -> str:
        return "gates:point"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(5, 2, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> GatePoints:
        return GatePoints(self, width)


class GatePoints(JointEnvironment):
    """The copies; `place` is `[B, 2]`, the `gate` of each `[B]`."""

    def __init__(self, world: Gates, width: int) -> None:
        self.world = world
        self.place, self.gate, self.time = np.zeros((width, 2)), np.zeros(width), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            rng = Key.of(seed).derive("gates").numpy()
            self.place[slot] = -0.8, rng.uniform(-0.8, 0.8)
            self.gate[slot] = rng.uniform(-0.8, 0.8)
            self.time[slot] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        move = STRIDE * np.clip(np.asarray(actions[0], np.float64), -1, 1)
        after = np.clip(self.place + move, -1, 1)
        crosses = (self.place[:, 0] < 0) != (after[:, 0] < 0)
        share = np.divide(-self.place[:, 0], move[:, 0], out=np.zeros(len(live)), where=crosses)
        blocked = crosses & (abs(self.place[:, 1] + share * move[:, 1] - self.gate) > WIDE)
        self.place = np.where((live & ~blocked)[:, None], after, self.place)
        self.time = self.time + live
        there = np.linalg.norm(self.place - GOAL, axis=1) < 0.1
        cut = (self.time >= self.world.length) & ~there
        return Moved(there[:, None].astype(np.float64), there[:, None], cut[:, None])

    def seen(self) -> Sequence[NDArray[np.float32]]:
        return (np.concatenate([self.place, self.gate[:, None], GOAL - self.place], 1).astype(np.float32),)


def shown(seen: NDArray[np.float32]) -> Array:
    """What a person does at `[B, 5]`: to the front of the gate, through it, to the goal; `[B, 2]`."""
    place, gate = seen[:, :2].astype(np.float64), seen[:, 2].astype(np.float64)
    left, near = place[:, 0] < 0, abs(place[:, 1] - gate) < WIDE / 2
    before = np.stack([np.full(len(seen), -0.15), gate], 1)
    through = np.stack([np.full(len(seen), 0.15), gate], 1)
    aim = np.where(left[:, None], np.where(near[:, None], through, before), GOAL)
    way = aim - place
    action: Array = way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), STRIDE)
    return action


def to_go(seen: NDArray[np.float32]) -> Array:
    """How far it is to the goal on the way that a person takes, `[B]`."""
    place, gate = seen[:, :2].astype(np.float64), seen[:, 2].astype(np.float64)
    door = np.stack([np.zeros(len(seen)), gate], 1)
    ahead = np.linalg.norm(door - place, axis=1) + np.linalg.norm(GOAL - door, axis=1)
    way: Array = np.where(place[:, 0] < 0, ahead, np.linalg.norm(GOAL - place, axis=1))
    return way


def _gates(name: str, settings: Mapping[str, str]) -> JointTask:
    if name != "gates:point":
        raise ConfigurationError(f"there is no task {name!r}; choose gates:point")
    return JointTask(Gates(**checked(name, settings, {"length": int})))


GATES = TaskForm(
    name="gates:point",
    description="a point that must pass a gate to its goal, which a scripted person can do",
    make=_gates,
)

"""A row of doors, of which one wrong handle ends the episode: what a combination lock is to a controller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat
from hocket.hooks.partners import ScriptedRule
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import PARTICLES, native_task


@dataclass(frozen=True)
class RightHandles(ScriptedRule):
    """Opens every door, or slips and takes any handle.

    Attributes:
        right: of each door.
    """

    right: tuple[int, ...] = ()
    slip: float = 0.05

    def odds(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        handle = np.array(self.right)[observations[:, : len(self.right)].argmax(1)]
        odds: NDArray[np.float64] = np.eye(self.choices)[handle] * (1 - self.slip) + self.slip / self.choices
        return odds


@dataclass(frozen=True)
class LockedDoors:
    """`count` doors in a row, each with `handles`, one of which opens it; another ends the episode.

    The last door pays 1 and ends it too; nothing else pays. Seen is a one-hot number of the door. Right handles are the
    same in every episode.
    """

    count: int = 10
    handles: int = 3

    def __post_init__(self) -> None:
        if self.count < 1 or self.handles < 2:
            raise ConfigurationError(
                f"task {self.name}: handles = {self.handles}; it needs at least 1 door and 2 handles"
            )

    @property
    def name(self) -> str:
        return f"doors:{self.count}"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(self.count, self.handles),)

    @property
    def joint(self) -> int:
        return 0

    @property
    def right(self) -> tuple[int, ...]:
        """The handle that opens each door."""
        return tuple(Key.of(0).derive("doors").numpy().integers(0, self.handles, self.count).tolist())

    @property
    def teacher(self) -> RightHandles:
        """Who knows the handles."""
        return RightHandles(self.handles, self.right)

    def oracle(self, seed: int) -> BestValue:
        """All doors open."""
        return BestValue(1.0)

    def open(self, width: int) -> JointEnvironment:
        return _Rows(self, width)


class _Rows(JointEnvironment):
    def __init__(self, world: LockedDoors, width: int) -> None:
        self.count, self.right = world.count, np.array([*world.right, -1])
        self.door = np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        self.door[list(slots)] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        opened = actions[0] == self.right[self.door]
        self.door = self.door + (opened & live)
        through = opened & (self.door == self.count)
        over = (~opened | through)[:, None]
        return Moved(through[:, None].astype(np.float64), over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        return [np.eye(self.count + 1, self.count, dtype=np.float32)[self.door]]


def _doors(name: str, settings: Mapping[str, str]) -> JointTask:
    matched = re.fullmatch(r"doors:(\d+)", name)
    if matched is None:
        raise ConfigurationError(f"there is no task {name!r}; write doors:10, for ten doors")
    return native_task(name, settings, {"handles": int}, partial(LockedDoors, int(matched[1])), PARTICLES)


DOORS = TaskForm(
    name="doors:COUNT",
    description="doors in a row, each with one right handle among wrong ones that end the episode, e.g. doors:10",
    make=_doors,
)

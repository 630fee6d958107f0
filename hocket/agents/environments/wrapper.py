"""What worlds that are made of another share: all is as there but what they say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.worlds import JointEnvironment, JointWorld, Moved, Seat


@dataclass(frozen=True)
class WrappedWorld(ABC):
    """A world made of another: all is as there but what a subclass says."""

    world: JointWorld

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def agents(self) -> tuple[str, ...]:
        return self.world.agents

    @property
    def seats(self) -> tuple[Seat, ...]:
        return self.world.seats

    @property
    def joint(self) -> int:
        return self.world.joint

    @abstractmethod
    def open(self, width: int) -> JointEnvironment:
        """So many copies; each must be reset before use."""


class WrappedCourse(JointEnvironment):
    """The copies of such a world, around those of the other."""

    def __init__(self, course: JointEnvironment) -> None:
        self._course = course

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        return self._course.step(actions, live)

    def seen(self) -> Sequence[NDArray[np.float32]]:
        return self._course.seen()

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        return self._course.allowed()

    def acting(self) -> NDArray[np.bool_] | None:
        return self._course.acting()

    def state(self) -> NDArray[np.float32] | None:
        return self._course.state()

    def snapshot(self, slot: int) -> Mapping[str, Any]:
        return {**super().snapshot(slot), "course": self._course.snapshot(slot)}

    def restore(self, slot: int, snapshot: Mapping[str, Any]) -> None:
        self._course.restore(slot, snapshot["course"])
        super().restore(slot, {name: held for name, held in snapshot.items() if name != "course"})

    def close(self) -> None:
        self._course.close()

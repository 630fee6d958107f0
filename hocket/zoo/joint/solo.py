"""A task of one agent as a joint world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Ranges, Seat, reward_of


class Single(Protocol):
    """One environment: `hocket.rollout.vector.VectorEnvironment`."""

    def reset(self, seed: int) -> NDArray[np.float32]: ...

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]: ...

    def close(self) -> None: ...


class SoloSpaces(Protocol):
    """A task with environments of one agent: `hocket.tasks.gym.GymTask`."""

    @property
    def name(self) -> str: ...

    @property
    def observations(self) -> int: ...

    @property
    def actions(self) -> int: ...

    @property
    def discrete(self) -> bool: ...

    def make(self) -> Single: ...


@dataclass(frozen=True)
class Solo:
    """The environments of a task of one agent, as a team of one. Its joint state is what the agent sees."""

    task: SoloSpaces

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        task, shape, ranges = self.task, getattr(self.task, "shape", ()), getattr(self.task, "ranges", ())
        choices = getattr(self.task, "choices", ())
        return (Seat(task.observations, task.actions, task.discrete, shape, ranges=ranges, choices=choices),)

    @property
    def joint(self) -> int:
        return self.task.observations

    @property
    def joint_ranges(self) -> Ranges:
        return self.seats[0].ranges

    def open(self, width: int) -> JointEnvironment:
        return _Alone(self.task, width)


class _Alone(JointEnvironment):
    def __init__(self, task: SoloSpaces, width: int) -> None:
        self._task = task
        self._open: list[Single | None] = [None] * width
        self._seen = np.zeros((width, task.observations), np.float32)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        failed = {}
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                self._seen[slot] = self._environment(slot).reset(seed)
            except Exception as error:
                failed[slot] = self._broken(slot, error)
        return failed

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        width = len(live)
        rewards, failed = np.zeros((width, 1)), {}
        ends = np.zeros((2, width, 1), bool)
        chosen = actions[0].tolist() if actions[0].ndim == 1 else actions[0]
        for slot in np.flatnonzero(live).tolist():
            try:
                observation, reward, terminated, truncated = self._environment(slot).step(chosen[slot])
                paid = reward_of(reward, f"task {self._task.name}")
            except ConfigurationError:
                raise
            except Exception as error:
                failed[slot] = self._broken(slot, error)
                continue
            self._seen[slot] = observation
            rewards[slot], ends[0, slot], ends[1, slot] = paid, bool(terminated), bool(truncated)
        return Moved(rewards, ends[0], ends[1], failed)

    def seen(self) -> Sequence[NDArray[np.float32]]:
        return (self._seen,)

    def state(self) -> NDArray[np.float32]:
        return self._seen

    def close(self) -> None:
        for slot in range(len(self._open)):
            self._forget(slot)

    def _environment(self, slot: int) -> Single:
        environment = self._open[slot]
        if environment is None:
            environment = self._open[slot] = self._task.make()
        return environment

    def _broken(self, slot: int, error: Exception) -> str:
        self._forget(slot)
        return f"environment: {type(error).__name__}: {error}"

    def _forget(self, slot: int) -> None:
        environment, self._open[slot] = self._open[slot], None
        if environment is not None:
            try:
                environment.close()
            except Exception:  # a broken environment may fail to close as well; it is forgotten either way
                return

"""Several tasks of teams as one world: every episode is of one of them, and agents see of which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, JointWorld, Moved, Seat
from hocket.tasks.joint import JointTask
from hocket.types import Trajectory

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class TaskMixture:
    """K worlds, of which the episode with seed s is of number `s // 2` modulo K.

    An agent sees K numbers, 1 at the task of the episode and 0 elsewhere; then what it sees in that task, and zeros up
    to the longest observation. Actions are those of the task with most of them; the others' are not allowed. In a task
    with a smaller team the last agents are absent: they end without a decision.

    Attributes:
        parts: the worlds, by the names under which weights of their own are kept.

    Raises:
        ConfigurationError: for worlds in which agents differ, take turns, or choose otherwise than one of several
            actions.
    """

    parts: tuple[tuple[str, JointWorld], ...]

    def __post_init__(self) -> None:
        for name, world in self.parts:
            seat = world.seats[0]
            if set(world.seats) != {Seat(seat.observations, seat.actions)}:
                raise ConfigurationError(
                    f"task {self.name}: agents of {name} do not all see as many plain numbers and choose one of as "
                    "many actions; use such as skirmish:3v3"
                )

    @property
    def name(self) -> str:
        return "together:" + "+".join(name for name, _ in self.parts)

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"member_{number}" for number in range(max(len(world.agents) for _, world in self.parts)))

    @property
    def seats(self) -> tuple[Seat, ...]:
        seats = [world.seats[0] for _, world in self.parts]
        length = len(seats) + max(seat.observations for seat in seats)
        return (Seat(length, max(seat.actions for seat in seats)),) * len(self.agents)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> JointEnvironment:
        return _SeveralCourses(self, width)


class _SeveralCourses(JointEnvironment):
    """The copies: as many of every world, of which those of the episode's task are played."""

    def __init__(self, world: TaskMixture, width: int) -> None:
        self.world, self.number = world, np.zeros(width, int)
        self._courses = [part.open(width) for _, part in world.parts]
        self._teams = np.array([len(part.agents) for _, part in world.parts])

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        failed: dict[int, str] = {}
        for slot, seed in zip(slots, seeds, strict=True):
            self.number[slot] = seed // 2 % len(self._courses)
            failed |= self._courses[self.number[slot]].reset([slot], [seed])
        return failed

    def acting(self) -> Bools:
        present: Bools = np.arange(len(self.world.agents)) < self._teams[self.number][:, None]
        return present

    def step(self, actions: Sequence[NDArray[Any]], live: Bools) -> Moved:
        shape = len(live), len(actions)
        rewards, terminated, truncated = np.zeros(shape), ~self.acting(), np.zeros(shape, bool)
        failures: dict[int, str] = {}
        for number, (course, team) in enumerate(zip(self._courses, self._teams, strict=True)):
            mine = live & (self.number == number)
            if not mine.any():
                continue
            choices = self.world.parts[number][1].seats[0].actions
            moved = course.step([np.minimum(action, choices - 1) for action in actions[:team]], mine)
            rewards[mine, :team] = moved.rewards[mine]
            terminated[mine, :team], truncated[mine, :team] = moved.terminated[mine], moved.truncated[mine]
            failures |= {slot: why for slot, why in moved.failures.items() if mine[slot]}
        return Moved(rewards, terminated, truncated, failures)

    def allowed(self) -> list[Bools]:
        seats = self.world.seats
        masks = np.zeros((len(self.number), len(seats), seats[0].actions), bool)
        for number, (course, team) in enumerate(zip(self._courses, self._teams, strict=True)):
            mine, choices = self.number == number, self.world.parts[number][1].seats[0].actions
            masks[mine, :, :choices] = True
            for agent, mask in enumerate(course.allowed()[:team]):
                if mask is not None:
                    masks[mine, agent, :choices] = mask[mine]
        return list(masks.transpose(1, 0, 2))

    def seen(self) -> list[NDArray[np.float32]]:
        count, seats = len(self._courses), self.world.seats
        rows = np.zeros((len(seats), len(self.number), seats[0].observations), np.float32)
        rows[:, np.arange(len(self.number)), self.number] = 1.0
        for number, course in enumerate(self._courses):
            mine = self.number == number
            for agent, sight in enumerate(course.seen()):
                rows[agent, mine, count : count + sight.shape[1]] = sight[mine]
        return list(rows)

    def snapshot(self, slot: int) -> dict[str, Any]:
        return {"number": int(self.number[slot]), "course": self._courses[self.number[slot]].snapshot(slot)}

    def restore(self, slot: int, snapshot: Any) -> None:
        self.number[slot] = snapshot["number"]
        self._courses[self.number[slot]].restore(slot, snapshot["course"])

    def close(self) -> None:
        for course in self._courses:
            course.close()


@dataclass(frozen=True)
class MixtureTask(JointTask):
    """A `JointTask` whose success is the mean return of the agents that are there."""

    def success(self, trajectory: Trajectory) -> float:
        return super().success(trajectory) * len(self.world.agents) / max(len(trajectory.turns), 1)

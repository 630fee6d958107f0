"""Who acts: a policy that reads pictures, cloned from demonstrations; it plays in the room or in what is imagined."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from hocket.core.errors import HocketError
from hocket.core.keys import Key, uniforms
from hocket.methods.generative.wmpo.model import WorldModel
from hocket.methods.generative.wmpo.world import (
    ACTIONS,
    MOVES,
    SIDE,
    Frames,
    Ints,
    Records,
    Room,
    demonstrations,
    rooms,
)
from hocket.policies.control import ControlPolicy
from hocket.stages import Task
from hocket.types import Assignment, Score, Trajectory, Turn, before_training

CHUNK = 2
"""Moves that are chosen from one picture."""
BLOCK = 64
"""Episodes side by side: networks compute so many rows at once, so a row has the same bits in any company."""
CLONING, _LR, _BATCH = 250, 2e-3, 128
"""Updates of behaviour cloning, which stops early."""
DEMONSTRATED = 300
"""Demonstrations, from which policy and world model begin."""


@dataclass(frozen=True)
class PictureSpaces:
    """What is read, a picture and the place in the chunk, and what is chosen from."""

    observations: int = 3 * SIDE * SIDE + CHUNK
    actions: int = len(ACTIONS)
    discrete: ClassVar[bool] = True


def read(frames: Frames, place: int) -> NDArray[np.float32]:
    """What the policy reads for move `place` of a chunk that begins with these pictures, `[B, O]`."""
    places = np.zeros((len(frames), CHUNK), np.float32)
    places[:, place] = 1.0
    return np.concatenate([frames.reshape(len(frames), -1), places], 1)


def known_moves(key: Key) -> Records:
    """The demonstrations of a run."""
    return demonstrations(key.derive("demonstrations"), DEMONSTRATED)


def cloned(policy: ControlPolicy, records: Records, key: Key) -> ControlPolicy:
    """The policy after maximum likelihood of demonstrated moves; the second of a chunk is the one after the first."""
    draws = key.numpy()
    optimiser = torch.optim.Adam(policy.module.actor.parameters(), _LR)
    following = np.flatnonzero(~records.reached[:-1])
    for update in range(CLONING):
        place = update % CHUNK
        rows = draws.choice(following, _BATCH) if place else draws.integers(0, len(records.action), _BATCH)
        inputs = torch.from_numpy(read(records.before[rows], place))
        labels = torch.from_numpy(records.action[rows + place])
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(policy.module.actor(inputs), labels))
        optimiser.step()
    optimiser.zero_grad()
    return policy


class Course(Protocol):
    """Where episodes take place."""

    def begin(self, seeds: Sequence[int]) -> Any:
        """The first states of B episodes."""

    def frames(self, state: Any) -> Frames:
        """What is seen in states."""

    def moved(self, state: Any, action: Ints) -> Any:
        """States after moves `[B]`."""

    def reached(self, state: Any) -> NDArray[np.bool_]:
        """Which states are successes, `[B]`."""


class TrueCourse:
    """The room itself."""

    def begin(self, seeds: Sequence[int]) -> Room:
        return rooms(list(seeds))

    def frames(self, state: Room) -> Frames:
        return state.frames()

    def moved(self, state: Room, action: Ints) -> Room:
        return state.moved(action)

    def reached(self, state: Room) -> NDArray[np.bool_]:
        return state.reached


@dataclass(frozen=True)
class ImaginedCourse:
    """What the model imagines from true first pictures on; a state is a picture."""

    model: WorldModel

    def begin(self, seeds: Sequence[int]) -> Frames:
        return rooms(list(seeds)).frames()

    def frames(self, state: Frames) -> Frames:
        return state

    def moved(self, state: Frames, action: Ints) -> Frames:
        return self.model.imagined(state, action)

    def reached(self, state: Frames) -> NDArray[np.bool_]:
        return self.model.judged(state)


@dataclass
class PicturePlayer:
    """Plays episodes on a course. The score `goal` is 1 where it says that the goal was reached, and ends an episode.

    The pictures of an episode are `final_state`, `[(M + 1) * 3 * SIDE * SIDE]` after M moves.
    """

    policy: ControlPolicy
    course: Course = field(default_factory=TrueCourse)
    reference: ControlPolicy | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        wanted = [
            (assignment, number)
            for assignment in assignments
            for number in range(assignment.first, assignment.first + assignment.samples)
        ]
        done: list[Trajectory] = []
        for actor, alike in itertools.groupby(wanted, lambda episode: episode[0].actor):
            episodes, policy = list(alike), self.policy if actor == "policy" else self._reference()
            for start in range(0, len(episodes), BLOCK):
                done += self._played(policy, episodes[start : start + BLOCK], key)
        return done

    def _played(self, policy: ControlPolicy, episodes: Sequence[tuple[Assignment, int]], key: Key) -> list[Trajectory]:
        """Episodes side by side; the block is filled up with its last one."""
        course, filled = self.course, [*episodes, *[episodes[-1]] * (BLOCK - len(episodes))]
        words = np.array([key.derive(item.scenario.id, item.source, n).word for item, n in filled], np.uint64)
        heat = np.array([item.decoding.temperature for item, _ in filled], np.float32)
        state = course.begin([item.scenario.seed for item, _ in filled])
        pictures = [course.frames(state)]
        ended, lengths = np.zeros(BLOCK, bool), np.zeros(BLOCK, np.int64)
        columns: list[tuple[NDArray[Any], ...]] = []
        for move in range(MOVES):
            inputs = read(pictures[move - move % CHUNK], move % CHUNK)
            action, logp = policy.sample(inputs, uniforms(words[:, None], np.full((1, 1), move, np.uint64)), heat)
            columns.append((inputs, action, logp))
            state = course.moved(state, action)
            pictures.append(course.frames(state))
            lengths += ~ended
            ended |= course.reached(state)
            if ended.all():
                break
        turns = [np.stack(column, 1) for column in zip(*columns, strict=True)]
        path = np.stack(pictures, 1)
        return [
            self._trajectory(item, number, [part[row, : lengths[row]] for part in turns], path[row], bool(ended[row]))
            for row, (item, number) in enumerate(episodes)
        ]

    def _trajectory(
        self, assignment: Assignment, number: int, columns: Sequence[NDArray[Any]], path: Frames, reached: bool
    ) -> Trajectory:
        inputs, action, logp = columns
        name = self.policy.name
        turn = Turn(
            agent="arm",
            policy=name if assignment.actor == "policy" else before_training(name),
            observation=inputs,
            action=action,
            logp=logp,
            version=np.full(len(action), self.policy.version, np.int64),
            segment=np.arange(len(action)) // CHUNK,
            decoding=assignment.decoding,
        )
        return Trajectory(
            assignment.scenario,
            [turn],
            sample=number,
            scores={"goal": Score(float(reached))},
            final_state=path[: len(action) + 1].reshape(-1),
            source=assignment.source,
        )

    def _reference(self) -> ControlPolicy:
        if self.reference is None:
            raise HocketError("the rollout samples from the policy as it was before training, which was not given")
        return self.reference


def records_of(trajectories: Sequence[Trajectory]) -> Records:
    """The moves of episodes in the room."""
    parts = []
    for trajectory in trajectories:
        path = np.asarray(trajectory.final_state, np.float32).reshape(-1, 3, SIDE, SIDE)
        reached = np.zeros(len(path) - 1, bool)
        reached[-1] = trajectory.scores["goal"].value == 1.0
        parts.append(Records(path[:-1], np.asarray(trajectory.turns[0].action, np.int64), path[1:], reached))
    return Records(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def task_key(task: Task) -> Key:
    """Of what comes with the task: its demonstrations."""
    return Key.of(0).derive("door-room", "policy")

"""How an environment's own observations and actions become those of a controller, and the reverse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.parallel_pettingzoo import ZooTeam, move
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import Seat
from hocket.rollout.joint import JointPlayer
from hocket.stages import Player, Task
from hocket.tasks.gym import Gymnasium

Masked = tuple[NDArray[np.float32], Any]
"""Rows `[O]` or `[B, O]`, and the mask that the observation contained, None without one."""


@dataclass(frozen=True)
class EnvironmentForm:
    """The observations and actions of one agent.

    Attributes:
        shape: of an observation that is an array; `()` for a discrete one. size: of its flat numbers.
        choices: the number of discrete actions; 0 for vectors.
        move: a controller's action as the environment takes it. actions: its space of actions, None without one.
        read: one observation as flat numbers, where it is no array of numbers: a choice, or what has parts (`Dict`).
        first: the lowest discrete observation. space: the environment's own space of observations.
        identity: the agent's one-hot number, which its rows end with; empty where a policy plays one agent.
    """

    shape: tuple[int, ...]
    size: int
    choices: int
    move: Callable[[Any], Any]
    actions: Any = None
    first: int = 0
    read: Callable[[Any], NDArray[np.float32]] | None = None
    space: Any = None
    identity: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))

    def rows(self, observation: Any) -> Masked:
        """An observation as the policy's row `[O]`, or a batch of them as `[B, O]`.

        Raises:
            ConfigurationError: for another shape, or numbers that are not finite.
        """
        mask = None
        if isinstance(observation, Mapping) and "action_mask" in observation and "observation" in observation:
            observation, mask = observation["observation"], observation["action_mask"]
        rows = self._read(observation) if self._has_parts(observation) else self._shaped(observation)
        if not np.isfinite(rows).all():
            raise ConfigurationError("the observation holds a number that is not finite")
        identity = np.broadcast_to(self.identity, (*rows.shape[:-1], len(self.identity)))
        return np.concatenate([rows, identity], -1), mask

    def _has_parts(self, observation: Any) -> bool:
        """Whether the environment's own reading is needed: numbers that stand for a choice, and what has parts."""
        if isinstance(observation, Mapping) or self.shape == ():
            return True
        return self.read is not None and np.shape(observation)[-1:] != (self.size,)

    def _shaped(self, observation: Any) -> NDArray[np.float32]:
        array = np.asarray(observation, np.float32)
        for shape in dict.fromkeys((self.shape, (self.size,))):
            if array.shape == shape:
                return array.reshape(self.size)
            if array.shape[1:] == shape:
                return array.reshape(-1, self.size)
        raise ConfigurationError(
            f"the observation has the shape {array.shape}; the environment's have {self.shape}, a batch "
            f"{('B', *self.shape)}".replace("'B'", "B")
        )

    def _read(self, observation: Any) -> NDArray[np.float32]:
        """An observation that is no array of numbers, or a batch of such, each part `[B, ..]`."""
        if self.read is None:
            raise ConfigurationError(
                f"the observation is {type(observation).__name__}, and the environment's are arrays"
            )
        if isinstance(observation, Mapping):
            parts = getattr(self.space, "spaces", {})
            if set(observation) != set(parts):
                raise ConfigurationError(
                    f"the observation has the parts {', '.join(map(str, observation))}; the environment's have "
                    f"{', '.join(map(str, parts)) or 'none'}"
                )
            name, part = next(iter(parts.items()))
            if np.ndim(observation[name]) == len(part.shape):
                return self.read(observation)
            count = len(observation[name])
            rows = [self.read({key: value[row] for key, value in observation.items()}) for row in range(count)]
            return np.array(rows, np.float32).reshape(count, self.size)
        numbers, rank = np.asarray(observation), len(getattr(self.space, "shape", None) or ())
        if numbers.ndim not in (rank, rank + 1) or numbers.dtype.kind not in "iub":
            raise ConfigurationError(
                f"the observation has the shape {numbers.shape} and type {numbers.dtype}; the environment's are whole "
                f"numbers, from {self.space}, or a batch of them"
            )
        try:
            if numbers.ndim == rank:
                return self.read(numbers)
            return np.array([self.read(row) for row in numbers]).reshape(len(numbers), self.size)
        except IndexError:
            raise ConfigurationError(f"the observation {numbers.tolist()} is not in {self.space}") from None


def form_of(task: Task, player: Player, agent: str) -> EnvironmentForm:
    """The form of an agent's environment."""
    if isinstance(player, JointPlayer):
        return _joint(player, agent)
    environment: Any = task.make()  # type: ignore[attr-defined]
    environment.close()
    spaces: Any = task
    shape = tuple(getattr(task, "shape", ()) or ()) or (spaces.observations,)
    choices = spaces.actions if spaces.discrete else 0
    if not isinstance(environment, Gymnasium):
        return EnvironmentForm(shape, spaces.observations, choices, _unchanged)
    space = environment.space
    discrete, array = hasattr(space, "n") and not space.shape, hasattr(space, "low")
    return EnvironmentForm(
        shape=() if discrete else tuple(space.shape) if array else (spaces.observations,),
        size=spaces.observations,
        choices=choices,
        move=environment.move,
        actions=environment.world.action_space,
        first=int(getattr(space, "start", 0)) if discrete else 0,
        read=None if array else environment.read,
        space=space,
    )


def _joint(player: JointPlayer, agent: str) -> EnvironmentForm:
    world = player.world
    seat: Seat = world.seats[world.agents.index(agent)]
    members = [member for member in world.agents if player.seats[member] == player.seats[agent]]
    identity = np.zeros(len(members) if player.identified and len(members) > 1 else 0, np.float32)
    if len(identity):
        identity[members.index(agent)] = 1.0
    convert: Callable[[Any], Any] = _unchanged
    actions = read = space = None
    if isinstance(world, ZooTeam):
        course = world.new()
        actions = course.action_space(agent)
        course.close()
        convert = functools.partial(move, actions)
        sight = world.sights[agent]
        space, read = sight.space, None if hasattr(sight.space, "low") else sight.read
    shape = tuple(seat.shape) if seat.shape and int(np.prod(seat.shape)) == seat.observations else (seat.observations,)
    choices = seat.actions if seat.discrete else 0
    return EnvironmentForm(
        shape, seat.observations, choices, convert, actions, read=read, space=space, identity=identity
    )


def _unchanged(action: Any) -> Any:
    """An action that the environment takes as the controller gives it."""
    return action

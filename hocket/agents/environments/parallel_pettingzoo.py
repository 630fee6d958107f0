"""Parallel environments of PettingZoo's interface, by the full name of their module, for control policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.flat_spaces import FlatObservation, choice_sizes, chosen_action, is_choice, is_vector
from hocket.agents.environments.pettingzoo import maker, observed
from hocket.agents.environments.spaces import ranges_of
from hocket.agents.environments.user_environments import LONGEST, UserEnvironment, wrapped
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Ranges, Seat, reward_of


@dataclass(frozen=True)
class ZooTeam:
    """A parallel environment, made with keyword arguments `settings`.

    Observations are flattened, a dictionary's `observation` is read and its `action_mask` kept to; actions are one or
    several choices, or a Box, of which +-1 are the ends. The joint state is the environment's own `state()`, where it
    has one. Each copy is an environment of its own, one after the other: the native worlds are faster.

    Attributes:
        module: a module such as `mpe2.simple_spread_v3`, or the name of an environment of a user's own.
        settings: the arguments; `wrappers` are put around it, see `hocket.agents.environments.user_environments`.
        maker: makes the environment, if it is a user's own.

    Raises:
        ConfigurationError: for a module that is not there or only turn by turn, or spaces that a network cannot read.
    """

    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    maker: UserEnvironment | None = None

    def __post_init__(self) -> None:
        _ = self.layout  # opens the environment once, so that mistakes show at once

    @property
    def name(self) -> str:
        return f"pettingzoo:{self.module}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self.layout[0])

    @property
    def seats(self) -> tuple[Seat, ...]:
        return tuple(self.layout[0].values())

    @property
    def joint(self) -> int:
        return self.layout[1]

    @property
    def joint_ranges(self) -> Ranges:
        return self.layout[2]

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know before a run."""
        cut = f"task {self.name}: an episode is cut after {LONGEST} steps unless the environment ends it"
        limit = () if self.maker is None else (cut,)
        return (*next(iter(self.sights.values())).remarks, *limit)

    @cached_property
    def sights(self) -> Mapping[str, FlatObservation]:
        """How each agent's observation is read."""
        course = self.new()
        try:
            return {str(agent): self._sight(course, agent) for agent in course.possible_agents}
        finally:
            course.close()

    def _sight(self, course: Any, agent: Any) -> FlatObservation:
        return FlatObservation(without_mask(course.observation_space(agent)), f"task {self.name}, agent {agent}")

    @cached_property
    def layout(self) -> tuple[Mapping[str, Seat], int, Ranges]:
        """Each agent's seat, and the size and ranges of the joint state."""
        course = self.new()
        try:
            seats = {str(agent): self._seat(course, agent) for agent in course.possible_agents}
            space = getattr(course, "state_space", None)
            size = 0 if space is None or space.shape is None else int(np.prod(space.shape))
            return seats, size, ranges_of(space)
        finally:
            course.close()

    def _seat(self, course: Any, agent: Any) -> Seat:
        sight, acts = self._sight(course, agent), course.action_space(agent)
        layout: dict[str, Any] = {"shape": sight.shape, "ranges": sight.ranges}
        if is_vector(acts):
            return Seat(sight.size, int(np.prod(acts.shape)), discrete=False, **layout)
        sizes = choice_sizes(acts)
        if not sizes:
            raise ConfigurationError(
                f"task {self.name}: agent {agent} takes actions from {acts}; control networks choose Discrete, "
                "MultiDiscrete and MultiBinary actions, and Box vectors of real numbers, so wrap it"
            )
        if is_choice(acts):
            return Seat(sight.size, sizes[0], **layout)
        return Seat(sight.size, sum(sizes), choices=sizes, **layout)

    def new(self) -> Any:
        """Opens one environment."""
        arguments = dict(self.settings)
        wrappers = arguments.pop("wrappers", "")
        try:
            made = (self.maker or maker(self.module, ("parallel_env",)))(**arguments)
        except (TypeError, AssertionError) as error:
            raise ConfigurationError(f"task {self.name}: {error}") from None
        return wrapped(made, wrappers, f"task {self.name}")

    def open(self, width: int) -> JointEnvironment:
        return _Side(self, width)


def without_mask(space: Any) -> Any:
    """The space of what an agent sees beside its mask of actions, as `observed` gives it."""
    inner = getattr(space, "spaces", None)
    if not isinstance(inner, Mapping) or "action_mask" not in inner:
        return space
    rest = {name: part for name, part in inner.items() if name != "action_mask"}
    if len(rest) == 1 or "observation" in rest:
        return rest.get("observation") or next(iter(rest.values()))
    return type(space)(rest)


def move(space: Any, action: Any) -> Any:
    """A controller's action as an environment with this space of actions takes it."""
    if is_choice(space):
        return int(action) + int(getattr(space, "start", 0))
    if not is_vector(space):
        return chosen_action(space, iter(np.ravel(action).tolist()))
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1), np.where(bounded, space.high, 1)
    action = np.reshape(action, space.shape)
    return np.clip((low + high) / 2 + (high - low) / 2 * action, space.low, space.high).astype(space.dtype)


class _Side(JointEnvironment):
    """Environments side by side."""

    def __init__(self, world: ZooTeam, width: int) -> None:
        self.world = world
        self._courses: list[Any] = [None] * width
        self._seen = [np.zeros((width, seat.observations), np.float32) for seat in world.seats]
        # Of the agents that ever had one.
        self._masks: dict[int, NDArray[np.bool_]] = {}
        self._state = np.zeros((width, world.joint), np.float32)
        self._sights = tuple(world.sights.values())
        self._steps = [0] * width
        self._longest = math.inf if world.maker is None else LONGEST

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        failed = {}
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                if self._courses[slot] is None:
                    self._courses[slot] = self.world.new()
                for rows in self._seen:
                    rows[slot] = 0.0
                self._steps[slot] = 0
                self._note(slot, *self._courses[slot].reset(seed=seed))
            except Exception as error:
                failed[slot] = self._broken(slot, error)
        return failed

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        agents, width = self.world.agents, len(live)
        rewards, failed = np.zeros((width, len(agents))), {}
        ends = np.zeros((2, width, len(agents)), bool)
        for slot in np.flatnonzero(live).tolist():
            course = self._courses[slot]
            try:
                moves = {
                    agent: move(course.action_space(agent), actions[number][slot])
                    for number, agent in enumerate(agents)
                    if agent in course.agents
                }
                observations, paid, terminated, truncated, infos = course.step(moves)
                self._note(slot, observations, infos)
                earned = [reward_of(paid.get(agent, 0.0), f"task {self.world.name}") for agent in agents]
            except ConfigurationError:
                raise
            except Exception as error:
                failed[slot] = self._broken(slot, error)
                continue
            rewards[slot] = earned
            self._steps[slot] += 1
            ends[1, slot] = self._steps[slot] >= self._longest
            for number, agent in enumerate(agents):
                # An agent that gets no further information has left.
                ends[0, slot, number] = bool(terminated.get(agent, agent not in course.agents))
                ends[1, slot, number] |= bool(truncated.get(agent, False))
        return Moved(rewards, ends[0], ends[1], failed)

    def _note(self, slot: int, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        for number, agent in enumerate(self.world.agents):
            sight, mask = observed(observations.get(agent), infos.get(agent))
            if sight is not None:
                reader = self._sights[number]
                is_read = not isinstance(sight, Mapping) or type(reader.space).__name__ == "Dict"
                self._seen[number][slot] = reader.read(sight if is_read else sight["observation"])
            if mask is not None and number not in self._masks:
                self._masks[number] = np.ones((len(self._courses), self.world.seats[number].actions), bool)
            if number in self._masks:  # What is not forbidden anew is free again.
                free = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, tuple) else mask
                self._masks[number][slot] = True if mask is None else np.asarray(free, bool)
        if self.world.joint:
            self._state[slot] = np.asarray(self._courses[slot].state(), np.float32).reshape(-1)

    def seen(self) -> Sequence[NDArray[np.float32]]:
        return self._seen

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        if not self._masks:
            return ()
        # A step changes them, and who asked keeps what was allowed before it.
        return [None if (mask := self._masks.get(number)) is None else mask.copy() for number in range(len(self._seen))]

    def state(self) -> NDArray[np.float32] | None:
        return self._state if self.world.joint else None

    def close(self) -> None:
        for slot in range(len(self._courses)):
            self._forget(slot)

    def _broken(self, slot: int, error: Exception) -> str:
        self._forget(slot)
        return f"environment: {type(error).__name__}: {error}"

    def _forget(self, slot: int) -> None:
        course, self._courses[slot] = self._courses[slot], None
        if course is not None:
            try:
                course.close()
            except Exception:  # a broken environment may fail to close as well; it is forgotten either way
                return

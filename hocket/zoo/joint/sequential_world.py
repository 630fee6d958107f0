"""A joint world whose agents decide one after the other within a step, each knowing what those before it chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.core.wrappers import WorldWrapper


@dataclass(frozen=True)
class SequentialWorld(WrappedWorld):
    """`world`, whose step takes one time for every agent, in their order; the world moves when the last has decided.

    After what it sees an agent reads the moves of those before it in this step, a one-hot number each, zeros for
    those who come after. The joint state ends in the same. So a policy over what an agent sees is `pi_i(a_i | s,
    a_1..a_{i-1})`, and the product of all is any joint policy. Actions must be discrete.
    """

    def __post_init__(self) -> None:
        if not all(seat.discrete for seat in self.world.seats):
            raise ConfigurationError(
                f"task {self.world.name}: continuous moves cannot be shown to others; drop sequenced"
            )

    @property
    def told(self) -> int:
        """The size of the part of an observation that holds others' moves."""
        return sum(seat.actions for seat in self.world.seats)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return tuple(replace(seat, observations=seat.observations + self.told) for seat in self.world.seats)

    @property
    def joint(self) -> int:
        return self.world.joint + self.told if self.world.joint else 0

    def open(self, width: int) -> JointEnvironment:
        return _InTurn(self, width)


class _InTurn(WrappedCourse):
    def __init__(self, world: SequentialWorld, width: int) -> None:
        super().__init__(world.world.open(width))
        sizes = [seat.actions for seat in world.seats]
        self._starts = np.cumsum([0, *sizes])
        self._chosen = np.zeros((width, len(sizes)), np.int64)
        self._turn = np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        self._turn[list(slots)] = 0
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        count = len(actions)
        mine = self._turn[:, None] == np.arange(count)
        self._chosen = np.where(mine & live[:, None], np.stack(actions, 1), self._chosen)
        ready = live & (self._turn == count - 1)
        self._turn = np.where(live, (self._turn + 1) % count, self._turn)
        if not ready.any():
            nothing = np.zeros((len(live), count), bool)
            return Moved(np.zeros((len(live), count)), nothing, nothing)
        moved = self._course.step(list(self._chosen.T), ready)
        mask = ready[:, None]
        return Moved(
            np.where(mask, moved.rewards, 0.0), moved.terminated & mask, moved.truncated & mask, moved.failures
        )

    def acting(self) -> NDArray[np.bool_]:
        turn: NDArray[np.bool_] = self._turn[:, None] == np.arange(self._chosen.shape[1])
        return turn

    def _moves(self) -> NDArray[np.float32]:
        """One-hot moves of those who have decided in this step, `[B, T]`."""
        moves = np.zeros((len(self._turn), int(self._starts[-1])), np.float32)
        slots, agents = np.nonzero(np.arange(self._chosen.shape[1]) < self._turn[:, None])
        moves[slots, self._starts[agents] + self._chosen[slots, agents]] = 1.0
        return moves

    def seen(self) -> list[NDArray[np.float32]]:
        moves = self._moves()
        return [np.concatenate([sight, moves], 1) for sight in self._course.seen()]

    def state(self) -> NDArray[np.float32] | None:
        state = self._course.state()
        return None if state is None else np.concatenate([state, self._moves()], 1)


SEQUENCED = WorldWrapper(
    name="sequenced=BOOL",
    description="agents decide one by one within a step, each knowing what those before it chose",
    settings={"sequenced": bool},
    layer=2,
    wrap=lambda world, sequenced: SequentialWorld(world) if sequenced else world,
)

"""A joint world in which one member of the team may be a traitor: a Bayesian game whose types nature draws.

After Li et al., Byzantine Robust Cooperative Multi-Agent Reinforcement Learning as a Bayesian Game (arXiv:2305.12872).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat

TRAITOR = "traitor"
"""The name of who decides in the place of a member that is one."""


@dataclass(frozen=True)
class Betrayed(WrappedWorld):
    """`world`, with one agent more: the traitor, who in some episodes acts in the place of one member of the team.

    At the beginning of an episode there is a traitor with probability `prior`, in the place of a member drawn evenly,
    and nobody else is told. That member decides nothing then; all that it would have seen, might have done and is paid
    is the traitor's, who sees after it a one-hot number of the place. What the traitor earns is minus the mean of what
    all places earn. It ends with the place, and in an episode without a traitor with the last of the team. The joint
    state ends in the types: for every member 1 where it is the traitor, else 0.

    Attributes:
        prior: how likely there is a traitor.
    """

    prior: float = 0.5

    def __post_init__(self) -> None:
        seats = self.world.seats
        if not 0 <= self.prior <= 1:
            raise ConfigurationError(
                f"task {self.world.name}: traitor = {self.prior} is no probability; choose one from 0 to 1"
            )
        if len(seats) < 2 or any(seat != seats[0] for seat in seats):
            raise ConfigurationError(
                f"task {self.world.name}: a traitor may sit in any place, so it takes two agents or more, who all see "
                "and do the same kinds of things; take a world such as forage:5x5-3p-1f"
            )

    @property
    def team(self) -> int:
        """How many members there are."""
        return len(self.world.agents)

    @property
    def agents(self) -> tuple[str, ...]:
        return (*self.world.agents, TRAITOR)

    @property
    def seats(self) -> tuple[Seat, ...]:
        place = self.world.seats[0]
        return (*self.world.seats, replace(place, observations=place.observations + self.team))

    @property
    def joint(self) -> int:
        return self.world.joint + self.team

    def open(self, width: int) -> JointEnvironment:
        return _Played(self, width)


class _Played(WrappedCourse):
    """`types` `[B, n]`, whether each member is the traitor, at most one of a copy."""

    def __init__(self, world: Betrayed, width: int) -> None:
        super().__init__(world.world.open(width))
        self.world = world
        self.types: NDArray[np.bool_] = np.zeros((width, world.team), bool)
        self._gone: NDArray[np.bool_] = np.zeros((2, width, world.team), bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            drawn = Key.of(seed).derive(TRAITOR).numpy()
            there, place = drawn.random() < self.world.prior, int(drawn.integers(self.world.team))
            self.types[slot] = there & (np.arange(self.world.team) == place)
        self._gone[:, list(slots)] = False
        return self._course.reset(slots, seeds)

    @property
    def betrayed(self) -> NDArray[np.bool_]:
        """Whether there is a traitor, `[B]`."""
        found: NDArray[np.bool_] = np.any(self.types, axis=1)
        return found

    def _of_place(self, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """What is said of the traitor's place, `[B, ...]`, of rows for every member; 0 where there is no traitor."""
        stacked = np.stack(rows, 1)
        chosen: NDArray[Any] = stacked[np.arange(len(self.types)), self.types.argmax(1)]
        there = self.betrayed.reshape(-1, *[1] * (chosen.ndim - 1))
        return np.where(there, chosen, np.zeros_like(chosen))

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        *members, traitor = actions
        made = []
        for number, own in enumerate(members):
            is_one = self.types[:, number].reshape(-1, *[1] * (own.ndim - 1))
            made.append(np.where(is_one, traitor, own).astype(own.dtype))
        moved = self._course.step(made, live)
        here = live[:, None]
        earned = np.where(here & ~self._gone.any(0), moved.rewards, 0.0).mean(1)
        self._gone |= np.stack([moved.terminated, moved.truncated]) & here
        done, over = np.all(self._gone[0], axis=1), np.all(self._gone.any(0), axis=1)
        last = np.stack([done, over & ~done])
        place = np.stack([self._of_place(list(ended.T)) for ended in (moved.terminated, moved.truncated)])
        ends: NDArray[np.bool_] = np.where(self.betrayed, place, last).astype(bool)
        return Moved(
            np.concatenate([moved.rewards, -earned[:, None]], 1),
            np.concatenate([moved.terminated, ends[0, :, None]], 1),
            np.concatenate([moved.truncated, ends[1, :, None]], 1),
            moved.failures,
        )

    def acting(self) -> NDArray[np.bool_]:
        turn = self._course.acting()
        moving = np.ones_like(self.types) if turn is None else turn
        return np.concatenate([moving & ~self.types, np.any(moving & self.types, axis=1)[:, None]], 1)

    def seen(self) -> list[NDArray[np.float32]]:
        sights = list(self._course.seen())
        return [*sights, np.concatenate([self._of_place(sights), self.types], 1).astype(np.float32)]

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        masks = list(self._course.allowed())
        if not masks or all(mask is None for mask in masks):
            return ()
        whole = [np.ones((len(self.types), seat.actions), bool) for seat in self.world.world.seats]
        whole = [free if mask is None else mask for free, mask in zip(whole, masks, strict=True)]
        return [*masks, self._of_place(whole) | ~self.betrayed[:, None]]

    def state(self) -> NDArray[np.float32]:
        types, state = self.types.astype(np.float32), self._course.state()
        return types if state is None else np.concatenate([state, types], 1)

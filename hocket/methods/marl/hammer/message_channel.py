"""A joint world in which a central agent tells every other one something before it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.core.wrappers import WorldWrapper

VOICE = "messenger"
"""What the names of the central agent's voices begin with."""


@dataclass(frozen=True)
class Messaged(WrappedWorld):
    """`world`, whose every move follows a message to each agent, one symbol of an alphabet.

    The central agent has a voice for each agent, `messenger_AGENT`, all of which see what nobody below does: the joint
    state where the world has one, else what all agents see. A step of the world takes two times: at the first the
    voices speak, at the second the agents move, each having its own message as a one-hot after what it sees (zeros
    before the first; after a move the last one stays). A voice earns the mean of all agents' rewards and ends with the
    last of them. The joint state, where there is one, ends in all messages. With no symbols there are no voices, and
    the world is as it was.

    Attributes:
        symbols: of the alphabet, 0 or at least 2.
    """

    symbols: int = 4

    def __post_init__(self) -> None:
        if self.symbols < 0 or self.symbols == 1:
            raise ConfigurationError(
                f"task {self.world.name}: messages is {self.symbols}; an alphabet has at least 2 symbols, and 0 is none"
            )
        if self.symbols and not all(seat.discrete for seat in self.world.seats):
            raise ConfigurationError(
                f"task {self.world.name}: messages are symbols and moves are vectors, which one batch cannot hold; "
                "drop messages"
            )

    @property
    def count(self) -> int:
        """How many are told something."""
        return len(self.world.agents) if self.symbols else 0

    @property
    def agents(self) -> tuple[str, ...]:
        return self.world.agents + tuple(f"{VOICE}_{agent}" for agent in self.world.agents[: self.count])

    @property
    def seats(self) -> tuple[Seat, ...]:
        told = [Seat(seat.observations + self.symbols, seat.actions, seat.discrete) for seat in self.world.seats]
        sight = self.world.joint or sum(seat.observations for seat in self.world.seats)
        return (*told, *[Seat(sight, self.symbols)] * self.count)

    @property
    def joint(self) -> int:
        return self.world.joint + self.symbols * self.count if self.world.joint else 0

    def open(self, width: int) -> JointEnvironment:
        return _Told(self, width)


class _Told(WrappedCourse):
    """`speaking`: whether the voices come next in a copy, `[B]`; `told`: the last messages, `[B, n, M]`."""

    def __init__(self, world: Messaged, width: int) -> None:
        super().__init__(world.world.open(width))
        self.world, self.below = world, len(world.world.agents)
        self.speaking = np.full(width, bool(world.count))
        self.told = np.zeros((width, self.below, world.symbols), np.float32)
        self._gone: NDArray[np.bool_] = np.zeros((2, width, self.below), bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        chosen = list(slots)
        self.speaking[chosen] = bool(self.world.count)
        self.told[chosen], self._gone[:, chosen] = 0.0, False
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        speak, width = live & self.speaking, len(live)
        if speak.any():
            spoken = np.eye(self.world.symbols, dtype=np.float32)[np.stack(actions[self.below :], 1)]
            self.told = np.where(speak[:, None, None], spoken, self.told)
        move = live & ~speak
        if self.world.count:
            self.speaking = np.where(live, ~self.speaking, self.speaking)
        if not move.any():
            nothing = np.zeros((width, len(actions)), bool)
            return Moved(np.zeros((width, len(actions))), nothing, nothing)
        moved = self._course.step(actions[: self.below], move)
        here = move[:, None]
        earned = np.where(here & ~self._gone.any(0), moved.rewards, 0.0)
        self._gone |= np.stack([moved.terminated, moved.truncated]) & here
        over = self._gone[0] | self._gone[1]
        done: NDArray[np.bool_] = self._gone[0].all(1)
        return Moved(
            self._with_voices(np.where(here, moved.rewards, 0.0), earned.mean(1)),
            self._with_voices(moved.terminated & here, done),
            self._with_voices(moved.truncated & here, over.all(1) & ~done),
            moved.failures,
        )

    def _with_voices(self, own: NDArray[Any], shared: NDArray[Any]) -> NDArray[Any]:
        """What is said of the agents `[B, n]` and then, once for each voice, `shared` `[B]`."""
        return np.concatenate([own, np.repeat(shared[:, None], self.world.count, 1)], 1)

    def acting(self) -> NDArray[np.bool_] | None:
        turn = self._course.acting()
        if not self.world.count:
            return turn
        moving = np.ones((len(self.speaking), self.below), bool) if turn is None else turn
        return self._with_voices(moving & ~self.speaking[:, None], self.speaking)

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        masks = self._course.allowed()
        return [*masks, *[None] * self.world.count] if masks else ()

    def seen(self) -> list[NDArray[np.float32]]:
        sights = list(self._course.seen())
        state = self._course.state()
        above = np.concatenate(sights, 1) if state is None else state
        return [np.concatenate([sight, self.told[:, n]], 1) for n, sight in enumerate(sights)] + [
            above
        ] * self.world.count

    def state(self) -> NDArray[np.float32] | None:
        state = self._course.state()
        return None if state is None else np.concatenate([state, self.told.reshape(len(state), -1)], 1)


MESSAGES = WorldWrapper(
    name="messages=SYMBOLS",
    description="a central agent says one of so many symbols to every other before it moves",
    settings={"messages": int},
    layer=3,
    wrap=lambda world, messages: Messaged(world, messages),
    identified=True,
    # Words mean nothing at first, and begin to by small differences that few episodes hide and many passes overlook.
    suggested={"curriculum.prompts": 256, "update.lr": 3e-3, "update.epochs": 4},
)

"""What a world of agents that act together is, many copies of it side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError

Ranges = tuple[tuple[int, float, float], ...]
"""Numbers in their order as runs of equal range, each how many and its lower and upper end, which a network reads as 0
and 1; those that are read as they are have 0 and 1. Empty where all are."""


def reward_of(reward: Any, world: str) -> float:
    """What a world pays as a number, be it Python's, NumPy's or an array of one.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(reward, (int, float)):
        return float(reward)
    given = np.array(None)
    try:
        given = np.asarray(reward)
        if given.size == 1 and given.dtype.kind in "biufO":
            return float(given.reshape(()).item())
    except (TypeError, ValueError, RuntimeError):  # What is no number, arrays of unequal rows, tensors with a gradient.
        pass
    what = f"an array of {given.size} numbers" if given.size != 1 else repr(reward)
    raise ConfigurationError(
        f"{world} pays {what} as a reward, which must be one number: wrap the environment so that it pays the sum, or "
        "whatever of it is to be learnt"
    )


@dataclass(frozen=True)
class Slots:
    """What is seen of others, row by row, behind an agent's `own` numbers.

    There are `count` rows of `size` numbers, of which the first says whether anybody is there, 1, or nobody, 0: the
    others are 0 then. Their order means nothing.
    """

    own: int
    count: int
    size: int


@dataclass(frozen=True)
class Plane:
    """What of a seat are vectors in the plane: turned by quarters together they show the same world, turned.

    Attributes:
        own: pairs of places, x and y, in what is seen of oneself. others: those in a row of `Slots`. moves: of every
            action, the direction that it moves in.
    """

    own: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Seat:
    """What an agent sees and may do.

    Attributes:
        observations: the size of the float32 vector that it sees. actions: its choices when `discrete`, else the
            dimensions of its action vector, in units where a range is [-1, 1].
        shape: of the grid with which what it sees begins, channels and all; empty where it sees none.
        ranges: of what it sees, where a network must not read the numbers as they are, such as pictures.
        action_form: of an action that is neither one choice nor a vector, an `ActionForm` of
            `hocket.policies.control_parts`; `actions` are then the outputs that it reads. sight_form: of what networks
            of its own read, a `SightForm` of the same. slots: where it sees others row by row, which rows. plane: which
            numbers and actions are vectors of a plane, where the world is the same however turned.
    """

    observations: int
    actions: int
    discrete: bool = True
    shape: tuple[int, ...] = ()
    action_form: Any = None
    sight_form: Any = None
    slots: Slots | None = None
    plane: Plane | None = None
    ranges: Ranges = ()


@dataclass(frozen=True)
class Moved:
    """What came of one step, B copies and n agents; rows of idle copies mean nothing.

    Attributes:
        rewards: `[B, n]` float64. terminated: whose task ended itself, `[B, n]` bool. truncated: whom a limit cut
            short, `[B, n]` bool.
        failures: the copies that broke, and why in words.
    """

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    failures: Mapping[int, str] = field(default_factory=dict)


class JointEnvironment(ABC):
    """B copies of a world in lockstep. A copy's episode depends on its seed and actions, not on the copies beside it.

    Agents are numbered as in `JointWorld.agents`. One that has ended, and one whose turn it is not, is given an action
    all the same, which means nothing.
    """

    @abstractmethod
    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        """Begins an episode in each of these copies; returns those that failed to, and why."""

    @abstractmethod
    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        """Moves every copy that is `live` `[B]` by the actions of each agent, `[B]` or `[B, A]`."""

    @abstractmethod
    def seen(self) -> Sequence[NDArray[np.float32]]:
        """What each agent sees now, `[B, O]` each; also of one that has just ended."""

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        """The actions that each agent may choose now, `[B, A]`, some in every row; empty where all always may."""
        return ()

    def acting(self) -> NDArray[np.bool_] | None:
        """Whose turn it is, `[B, n]`; None where all move at once."""
        return None

    def state(self) -> NDArray[np.float32] | None:
        """The state of the whole world for central critics, `[B, S]`."""
        return None

    def close(self) -> None:
        """Lets go of what the copies hold."""
        return


class JointWorld(Protocol):
    """Where joint environments come from: a frozen value."""

    @property
    def name(self) -> str:
        """What to give to `--task`."""
        ...

    @property
    def agents(self) -> tuple[str, ...]: ...

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Of each agent."""
        ...

    @property
    def joint(self) -> int:
        """The size of the joint state; 0 where there is none."""
        ...

    def open(self, width: int) -> JointEnvironment:
        """So many copies; each must be reset before use."""
        ...

"""Multi-agent environments: many copies that step together."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError

Ranges = tuple[tuple[int, float, float], ...]
"""The ranges of an observation's numbers, as runs (count, lower end, upper end). A network reads the ends as 0 and 1.
Unscaled numbers have the range 0 to 1; empty if no number is scaled."""


def reward_of(reward: Any, world: str) -> float:
    """A reward as a float: from a Python or NumPy number, or an array of one number.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(reward, (int, float)):
        return float(reward)
    array = np.array(None)
    try:
        array = np.asarray(reward)
        if array.size == 1 and array.dtype.kind in "biufO":
            return float(array.reshape(()).item())
    except (TypeError, ValueError, RuntimeError):  # No number, arrays of unequal rows, tensors with a gradient.
        pass
    value = f"an array of {array.size} numbers" if array.size != 1 else repr(reward)
    raise ConfigurationError(
        f"{world} pays {value} as a reward, which must be one number: wrap the environment so that it pays the sum, or "
        "whatever of it is to be learnt"
    )


@dataclass(frozen=True)
class Slots:
    """The layout of an observation that lists other entities: `own` numbers of the agent, then `count` rows.

    A row has `size` numbers. The first is 1 if the row holds an entity; else the whole row is 0. The order of the rows
    carries no information.

    Where an action is a row, or several (`pointers`), the `fixed` numbers behind a row's first stay as they are through
    an episode, whether or not it still holds an entity.

    Attributes:
        fixed: how many numbers stay. The last `profile * pointers` of them are as many for each pointer.
        pointers: how many rows an action is. Numbers of a row that change are as many for each pointer.
        each: of the own numbers, the last `each * pointers` are as many for each pointer. The first of these is the row
            where it stands, by number.
    """

    own: int
    count: int
    size: int
    fixed: int = 0
    pointers: int = 0
    each: int = 1
    profile: int = 0


@dataclass(frozen=True)
class Plane:
    """The vectors in the plane among a seat's observations and actions.

    Turning all of them by a quarter turn gives the turned world.

    Attributes:
        own: index pairs (x, y) in the agent's own numbers. others: index pairs in a row of `Slots`. moves: the
            direction of movement of each action.
    """

    own: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Seat:
    """The observations and actions of an agent.

    Attributes:
        observations: the size of its observation, a float32 vector. actions: the number of choices when `discrete`,
            else the dimensions of its action vector, scaled to [-1, 1].
        shape: the shape of the grid at the beginning of the observation, channels included; empty if there is none.
        ranges: the ranges of numbers that a network must not read unscaled, such as pixels.
        choices: the options of every choice, where an action is several choices; `actions` is then their sum.
        action_form: an `ActionForm` of `hocket.policies.control_parts`, for an action that is neither one choice nor a
            vector; `actions` is then the number of outputs that it reads. sight_form: a `SightForm` of the same module,
            for observations that need networks of their own. slots: the rows of other entities in the observation.
            plane: the vectors in the plane, if the world is invariant to quarter turns.
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
    choices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Moved:
    """The result of one step of B copies with n agents; rows of idle copies have no meaning.

    Attributes:
        rewards: `[B, n]` float64. terminated: whether the task ended for the agent, `[B, n]` bool. truncated: whether a
            limit cut its episode short, `[B, n]` bool.
        failures: the reason of each failed copy, by its number.
    """

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    failures: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BestValue:
    """The best success of an episode, as a world's `oracle(seed)` knows it by other code than its own.

    Attributes:
        value: the success, which for a joint world is the mean of the agents' returns. exact: whether it can be
            reached; else it is a bound, which nothing exceeds.
    """

    value: float
    exact: bool = True


class JointEnvironment(ABC):
    """B copies of a world in lockstep. A copy's episode depends on its seed and actions, not on the other copies.

    Agents are numbered as in `JointWorld.agents`. An agent that has ended, or whose turn it is not, receives an action
    too; it is ignored.

    Attributes:
        fixed: names of attributes whose first axis may be as long as there are copies, and which are not of copies.
    """

    fixed: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        """Begins an episode in each of these copies; returns the reason of each failure, by copy."""

    @abstractmethod
    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        """Steps every `live` copy, `[B]`, by the actions of each agent, `[B]` or `[B, A]`."""

    @abstractmethod
    def seen(self) -> Sequence[NDArray[np.float32]]:
        """The current observations of each agent, `[B, O]`, also of agents that have just ended."""

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        """The allowed actions of each agent, `[B, A]`, at least one per row; empty if all are always allowed."""
        return ()

    def acting(self) -> NDArray[np.bool_] | None:
        """Whether it is the agent's turn, `[B, n]`; None if all move simultaneously."""
        return None

    def state(self) -> NDArray[np.float32] | None:
        """The state of the whole world for central critics, `[B, S]`."""
        return None

    def snapshot(self, slot: int) -> Mapping[str, Any]:
        """The state of a copy, which `restore` puts into any copy of the same world.

        As it stands, the rows of every array and list of the environment whose first axis is the copies.

        Raises:
            ConfigurationError: where a part of the state cannot be copied.
        """
        try:
            return {name: copy.deepcopy(rows[slot]) for name, rows in self._of_copies().items()}
        except (TypeError, ValueError, AttributeError, RuntimeError, NotImplementedError) as error:
            raise ConfigurationError(
                f"{type(self).__name__} cannot be restored, because a part of it cannot be copied ({error}); take a "
                "world whose state is arrays"
            ) from None

    def restore(self, slot: int, snapshot: Mapping[str, Any]) -> None:
        """Puts a state that `snapshot` gave into a copy; the state may be restored again."""
        rows = self._of_copies()
        for name, held in snapshot.items():
            rows[name][slot] = copy.deepcopy(held)

    def _of_copies(self) -> dict[str, Any]:
        """The arrays and lists of the environment whose first axis is the copies, by name; of dictionaries, theirs."""
        width, arrays = len(self.seen()[0]), dict[str, Any]()
        for name, value in vars(self).items():
            parts = value if isinstance(value, dict) else dict(enumerate(value)) if _several(value) else {"": value}
            for key, part in parts.items() if name not in self.fixed else ():
                if (isinstance(part, list) or (isinstance(part, np.ndarray) and part.ndim)) and len(part) == width:
                    arrays[f"{name}/{key}"] = part
        return arrays

    def close(self) -> None:
        """Frees the resources of the copies."""
        return


def _several(value: Any) -> bool:
    """Whether a value is a list or tuple of arrays."""
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(part, np.ndarray) for part in value)


class JointWorld(Protocol):
    """A factory of joint environments: a frozen value."""

    @property
    def name(self) -> str:
        """The value of `--task`."""
        ...

    @property
    def agents(self) -> tuple[str, ...]: ...

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The seat of each agent."""
        ...

    @property
    def joint(self) -> int:
        """The size of the joint state; 0 if there is none."""
        ...

    def open(self, width: int) -> JointEnvironment:
        """Makes `width` copies; each must be reset before use."""
        ...

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
class Factors:
    """An action in parts: a function, then its arguments, each of its own choices.

    Attributes:
        sizes: choices of every part, the function's first.
        takes: of every function, which of the other parts are arguments of it. Those that are not are 0.
    """

    sizes: tuple[int, ...]
    takes: tuple[tuple[bool, ...], ...]

    def __post_init__(self) -> None:
        if len(self.takes) != self.sizes[0] or any(len(row) != len(self.sizes) - 1 for row in self.takes):
            raise ValueError(
                f"{self.sizes[0]} functions and {len(self.sizes) - 1} arguments need as many rows of takes"
            )


@dataclass(frozen=True)
class Layout:
    """What one of n agents that decide along a network sees, part by part:
    `hocket.methods.marl.bayesian_network_actor_critic.message_graph`.

    Its own `sight`; the `context` that networks are drawn from; n numbers of chance for the order and n for the edges
    that lead to it; whose edge leads to it, `[n]` of 0 and 1; who it is, one-hot `[n]`; and what each of the others
    that moved before it did, one-hot `[n, moves]`, zeros of those that it cannot be told of.
    """

    sight: int
    context: int
    agents: int
    moves: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes of all these in turn."""
        agents = self.agents
        return (self.sight, self.context, agents, agents, agents, agents, agents * self.moves)


class Networks(Protocol):
    """What draws networks over n agents for B contexts."""

    def __call__(
        self, context: NDArray[np.float32], order: NDArray[np.float32], edges: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Everybody's place in the order, `[B, n]`, and which edges are open, from the first of a pair, `[B, n, n]`.

        Args:
            context: `[B, C]`. order, edges: chance, standard Gumbel numbers `[B, n]` and logistic ones `[B, n, n]`.
        """
        ...


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
class Commands:
    """What one sees who chooses a command, a verb with an object, all in whole numbers:
    `hocket.methods.agents.knowledge_injection_text_games.commands`.

    The last words of a text, `length` of them; the words of every verb's name and of every object's, `span` each;
    `triples` of a graph, each a node, a relation and a node; and how many commands were illegal so far, which is for
    the record. Words are numbered from 1 to `words`, nodes from 1: verbs, objects, and the agent last; relations too. 0
    is where there is none. Command v * objects + o is verb v with object o.

    Attributes:
        relations: how many there are; 0 where there is no graph.
    """

    words: int
    length: int
    verbs: int
    objects: int
    span: int
    relations: int
    triples: int

    @property
    def nodes(self) -> int:
        """Of the graph."""
        return self.verbs + self.objects + 1

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes of all these in turn."""
        return (self.length, (self.verbs + self.objects) * self.span, 3 * self.triples, 1)


@dataclass(frozen=True)
class Seat:
    """What an agent sees and may do.

    Attributes:
        observations: the size of the float32 vector that it sees. actions: its choices when `discrete`, else the
            dimensions of its action vector, in units where a range is [-1, 1].
        shape: of the grid with which what it sees begins, channels and all; empty where it sees none.
        ranges: of what it sees, where a network must not read the numbers as they are, such as pictures.
        factors: the parts of an action, where it has any: actions are then `[B, parts]` whole numbers, `actions` is the
            sum of all sizes, and what is allowed of each part stands after what is allowed of the part before.
        layout: of what it sees, where agents decide along a network. slots: where it sees others row by row, which
            rows. plane: which numbers and actions are vectors of a plane, where the world is the same however turned.
    """

    observations: int
    actions: int
    discrete: bool = True
    shape: tuple[int, ...] = ()
    factors: Factors | None = None
    layout: Layout | None = None
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

"""What stages and worlds bring to a control policy: parts beside actor and critic, forms of actions and of sight.

`ControlPolicy` knows none of them by name. It asks each of its parts at the places where a part may join in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.policy_parts import PolicyPart
from hocket.core.stored_rows import StoredColumn
from hocket.policies.control_heads import Head
from hocket.policies.control_networks import ActorCritic
from hocket.policies.settings import NetworkSettings
from hocket.types import Quantity


@dataclass(frozen=True)
class NetworkRequest:
    """A network for `inputs` numbers, of which the first `offset` stand before what is seen.

    Attributes:
        actor: whether its outputs are logits of the actions. gain: of the last layer.
    """

    inputs: int
    outputs: int
    offset: int
    actor: bool
    gain: float


class SightForm(Protocol):
    """How what is seen is laid out, where networks of its own read it: what a world states as `sight`.

    It may state `sizes`, on which its weights depend in the place of the spaces', and in `anew` names of modules of the
    policy that a file of weights need not have.
    """

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        """Such a network, its weights drawn from the key.

        Raises:
            ConfigurationError: for settings that do not go with it.
        """
        ...

    def config(self) -> Mapping[str, Any]:
        """What a saved policy states of it."""
        ...


Links = Callable[[int, str, int], nn.Module]
"""Makes a network: how many outputs it has, a name that its weights are drawn by, how many numbers it reads besides."""


class ActionForm(Protocol):
    """What an action is, where it is neither one choice nor a vector: what a world states as `action_form`."""

    @property
    def draws(self) -> int:
        """Uniforms per decision."""
        ...

    def actor(self, link: Links) -> nn.Module:
        """The network that gives what `head` reads."""
        ...

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Head:
        """The distribution by an actor's outputs; `taken` are actions along which it may be measured."""
        ...

    def config(self) -> Mapping[str, Any]:
        """What a saved policy states of it."""
        ...


class PartHost(Protocol):
    """What a part may read of its control policy, and change while it is attached.

    Attributes:
        spaces: what the policy was made for. key: what all its weights are drawn from. module: its weights.
        joint: the size of the joint state, 0 where there is none. sight: the layout of what is seen, whose `form` may
            be replaced.
    """

    name: str
    network: NetworkSettings
    hidden: tuple[int, ...]
    action_form: ActionForm | None
    sight: Any
    spaces: Any
    key: Key
    observations: int
    actions: int
    discrete: bool
    joint: int

    @property
    def module(self) -> ActorCritic: ...

    def remake_actor(self) -> None:
        """Draws the actor anew, as it is now to be."""
        ...

    def observed(self, batch: Batch) -> Tensor:
        """The observation before each decision, `[T, O]`."""
        ...

    def as_read(self, observations: Tensor) -> Tensor:
        """Observations as networks read them."""
        ...

    def cached(self, name: str, source: object, make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives, made once for a `source` until weights or statistics change."""
        ...


@runtime_checkable
class Attaches(Protocol):
    """A policy that takes control parts."""

    def attach(self, part: ControlPart) -> None: ...


@dataclass(frozen=True)
class EvaluatedRows:
    """K decisions of a batch that are evaluated, as parts with quantities of their own read them.

    Attributes:
        batch: the batch, whose annotations hold what was stored. places: the decisions in it, `[K]`.
        seen: what the actor reads, `[K, I]`. outputs: what it gives, `[K, ..]`. head: the distribution by it.
        action: the recorded actions, `[K, ..]`.
    """

    batch: Batch
    places: Tensor
    seen: Tensor
    outputs: Tensor
    head: Head
    action: Tensor

    def column(self, column: StoredColumn) -> Tensor:
        """A stored column at the decisions, `[K, ..]`."""
        values = column.read(self.batch, "the policy")
        return values if len(self.places) == len(values) else values[self.places]


class ControlPart(PolicyPart):
    """A part of control policies. Its networks, if it has any, are named modules of the policy's module.

    Attributes:
        recurrent: whether decisions depend on what was seen before. reads_rewards: whether on rewards. critics: names
            of its modules beside `critic` that values alone need, which `add_critics` makes. groups: of its weights
            that are neither the actor's nor the critic's, in `ControlPolicy.parts`: a name, and the module that they
            are in. slow: by module of a slow copy, the module that it follows. quantities: those that `evaluated`
            gives.
    """

    recurrent: ClassVar[bool] = False
    reads_rewards: ClassVar[bool] = False
    critics: ClassVar[tuple[str, ...]] = ()
    groups: ClassVar[Mapping[str, str]] = {}
    slow: ClassVar[Mapping[str, str]] = {}
    quantities: ClassVar[frozenset[Quantity]] = frozenset()

    def fits(self, policy: Any) -> bool:
        return isinstance(policy, Attaches)

    def install(self, policy: Any) -> None:
        policy.attach(self)

    def begin(self, host: PartHost) -> None:
        """Makes what it needs in a policy that has no such part yet; the policy calls it once.

        Raises:
            ConfigurationError: where it does not go with what the policy reads, does or has.
        """

    def add_critics(self, host: PartHost) -> None:
        """Makes the modules that `critics` names, when values are needed first."""

    def config(self, host: PartHost) -> Mapping[str, Any]:
        """What a saved policy states of it."""
        return {}

    # ------------------------------------------------------------ what networks read

    def before(self, host: PartHost) -> int:
        """How many numbers the critic reads before what is seen."""
        return 0

    def behind(self, host: PartHost) -> int:
        """How many numbers actor and critic read behind what is seen."""
        return 0

    def read(self, host: PartHost, batch: Batch, chosen: Tensor, seen: Tensor, *, critic: bool) -> Tensor:
        """What is read at chosen decisions, `[K, ..]`, of which others have joined `seen`."""
        return seen

    def read_last(self, host: PartHost, batch: Batch, rows: Sequence[int], last: Tensor, seen: Tensor) -> Tensor:
        """What the critic reads of the final states of these trajectories, `[R, ..]`.

        Args:
            last: what was seen there, `[R, O]`. seen: the same with what others have joined.
        """
        return seen

    # ------------------------------------------------------------ acting and learning

    def carries(self, host: PartHost) -> int:
        """How many numbers it carries from decision to decision."""
        return 0

    def step(self, host: PartHost, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        """What the actor reads when `[B, O]` is seen next, and what is carried on, `[B, carries]`."""
        return seen, carried

    def acted(self, host: PartHost, action: Tensor, carried: NDArray[np.float32]) -> None:
        """Changes what it carries, `[B, carries]`, by the actions `[B, ..]` that were drawn."""

    def paid(self, host: PartHost, rewards: NDArray[np.float64], carried: NDArray[np.float32]) -> None:
        """Changes what it carries, `[B, carries]`, by what the last decisions were paid, `[B]`."""

    def values(self, host: PartHost, batch: Batch, chosen: Tensor, values: Tensor) -> Tensor:
        """Values of chosen decisions `[K]`, by those of the critic."""
        return values

    def last_values(self, host: PartHost, values: Tensor) -> Tensor:
        """Values of final states `[R]`, by those of the critic."""
        return values

    def observe(self, host: PartHost, batch: Batch, mine: Tensor) -> None:
        """Lets an update take effect that was made with these decisions of a batch."""

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        """The wanted quantities of its own at these decisions, `[K, ..]`."""
        return {}

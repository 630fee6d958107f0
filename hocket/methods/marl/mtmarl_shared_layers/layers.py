"""Networks with first layers of each task's own, and layers behind them that all tasks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.mtmarl_shared_layers.mixture import TaskMixture
from hocket.policies.control_networks import ACTIVATIONS, Perceptron
from hocket.policies.control_parts import ControlPart, NetworkRequest, PartHost
from hocket.policies.settings import NetworkSettings

_FIRST = 0.1
"""The gain of a task's own layer when it begins."""


class SharedDecisions(nn.Module):
    """`g(f_k(o))`: what a task's own layer `f_k` makes of the observation, read by the layers `g` of all tasks.

    Rows are those of `TaskMixture`, `[B, K + longest]`. `f_k` is linear with an activation, so a row reaches the
    weights of its own task and `g` alone. A row of no task, as of a copy at rest, is read as zeros. First weights of
    `f_k` are small (`_FIRST`): so a new task begins with what `g` does at any sight, and not with its odds far from 0.

    Args:
        tasks: the length of an observation, by task. hidden: units of `f`, then of the layers of `g`. frozen: whether
            `g` stays as it is.
    """

    def __init__(
        self,
        tasks: Mapping[str, int],
        hidden: Sequence[int],
        outputs: int,
        *,
        frozen: bool,
        activation: Literal["tanh", "relu"],
        last_gain: float,
        key: Key,
    ) -> None:
        super().__init__()
        self.activation, self.lengths = ACTIVATIONS[activation], tuple(tasks.values())
        self.own = nn.ModuleDict(
            {
                name.replace(".", "_"): Perceptron((length, hidden[0]), last_gain=_FIRST, key=key.derive("own", name))
                for name, length in tasks.items()
            }
        )
        self.shared = Perceptron(
            (*hidden, outputs), last_gain=last_gain, key=key.derive("shared"), activation=activation
        )
        self.shared.requires_grad_(not frozen)

    def forward(self, rows: Tensor) -> Tensor:
        count = len(self.lengths)
        read = rows.new_zeros(len(rows), self.shared.weights[0].shape[1])
        for number, (own, length) in enumerate(zip(self.own.values(), self.lengths, strict=True)):
            (mine,) = (rows[:, number] > 0).nonzero(as_tuple=True)
            read = read.index_put((mine,), self.activation(own(rows[mine, count : count + length])))
        outputs: Tensor = self.shared(read)
        return outputs


@dataclass(frozen=True)
class TaskSight:
    """A `SightForm` of observations of `TaskMixture`, read by `SharedDecisions`.

    Weights depend on the number of actions alone: a saved policy is read for other tasks, whose own layers begin anew.

    Attributes:
        tasks: names of tasks, and the length of an observation in each. actions: choices. frozen: see
            `SharedDecisions`.
    """

    tasks: tuple[tuple[str, int], ...]
    actions: int
    frozen: bool = False

    anew: ClassVar[tuple[str, ...]] = ("actor.own", "critic.own")

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that weights depend on."""
        return {"actions": self.actions}

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        if settings.body != "perceptron" or settings.normalise or wanted.offset or not hidden:
            raise ConfigurationError(
                "layers of several tasks are perceptrons with one hidden layer at least that read what an agent sees; "
                "drop network.body and network.normalise, and use no critic of joint states"
            )
        return SharedDecisions(
            dict(self.tasks),
            hidden,
            wanted.outputs,
            frozen=self.frozen,
            activation=settings.activation,
            last_gain=wanted.gain,
            key=key,
        )

    def config(self) -> Mapping[str, Any]:
        return {"shared": True}


@dataclass(frozen=True)
class LayersByTask(ControlPart):
    """Actor and critic are `SharedDecisions`.

    Attributes:
        frozen: whether the shared layers stay as they are.
    """

    frozen: bool = False

    needed: ClassVar[str] = "layers of each task's own before those that all share"
    advice: ClassVar[str] = "use ippo"

    def begin(self, host: PartHost) -> None:
        world = getattr(host.spaces, "world", None)
        if not isinstance(world, TaskMixture):
            raise ConfigurationError(
                f"policy {host.name!r} has layers for each of several tasks, and this is one; use such as "
                "together:skirmish:2v3+skirmish:4v3"
            )
        if host.observations != world.seats[0].observations:
            raise ConfigurationError(f"task {world.name}: agents of one team are alike here; drop ids=true")
        lengths = tuple((name, part.seats[0].observations) for name, part in world.parts)
        host.sight = replace(host.sight, form=TaskSight(lengths, host.actions, self.frozen))
        host.remake_actor()

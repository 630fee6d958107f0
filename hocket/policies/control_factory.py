"""The networks of a control policy, by the body that its settings name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from torch import nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import Plane, Slots
from hocket.policies.control_attention import Attention
from hocket.policies.control_bodies import Convolution, Recurrent
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import NetworkRequest, SightForm
from hocket.policies.control_pointer import Pointer
from hocket.policies.control_sets import OverSets
from hocket.policies.settings import NetworkSettings


@dataclass(frozen=True)
class Sight:
    """The layout of an observation: see `Seat` of `hocket.core.worlds`."""

    shape: tuple[int, ...] = ()
    slots: Slots | None = None
    plane: Plane | None = None
    form: SightForm | None = None

    @classmethod
    def of(cls, spaces: Any) -> Self:
        """The layout of the observations in a controller's spaces."""
        shape, slots, plane, form = (getattr(spaces, name, None) for name in ("shape", "slots", "plane", "sight_form"))
        return cls(tuple(shape or ()), slots, plane, form)


def made(settings: NetworkSettings, hidden: Sequence[int], sight: Sight, wanted: NetworkRequest, key: Key) -> nn.Module:
    """Such a network, its weights drawn from the key.

    Raises:
        ConfigurationError: for a body that cannot read what is seen.
    """
    if sight.form is not None:
        return sight.form.network(settings, hidden, wanted, key)
    if settings.activation != "tanh" and settings.body != "perceptron":
        raise ConfigurationError(
            f"network.activation = {settings.activation} is for perceptrons; drop it, or network.body = {settings.body}"
        )
    sizes: tuple[int, Sequence[int], int] = (wanted.inputs, hidden, wanted.outputs)
    if settings.body == "recurrent":
        return Recurrent(*sizes, last_gain=wanted.gain, key=key)
    if settings.body == "attention":
        return Attention(*sizes, window=settings.window, last_gain=wanted.gain, key=key)
    if settings.body == "convolution":
        if not sight.shape:
            raise ConfigurationError(
                "network.body = convolution reads grids, and what is seen here is no grid; use perceptron or recurrent"
            )
        return Convolution(sight.shape, *sizes, offset=wanted.offset, last_gain=wanted.gain, key=key)
    if settings.body == "pointer":
        return _pointer(settings, hidden, sight, wanted, key)
    if settings.body in ("sets", "equivariant"):
        return _over_sets(settings, hidden, sight, wanted, key)
    layers = (wanted.inputs, *hidden, wanted.outputs)
    return Perceptron(layers, last_gain=wanted.gain, key=key, activation=settings.activation)


def _pointer(
    settings: NetworkSettings, hidden: Sequence[int], sight: Sight, wanted: NetworkRequest, key: Key
) -> Pointer:
    if sight.slots is None or not sight.slots.pointers:
        raise ConfigurationError(
            "network.body = pointer chooses among rows that it sees, and here an action is no row; use perceptron, or "
            "a world such as routes:tsp"
        )
    if settings.normalise:
        raise ConfigurationError("network.body = pointer reads rows as they are; drop network.normalise")
    if wanted.offset:
        raise ConfigurationError(
            "network.body = pointer reads what its agent sees, and a central critic a joint state; use ppo or rloo"
        )
    return Pointer(sight.slots, wanted.inputs, hidden, acts=wanted.actor, last_gain=wanted.gain, key=key)


def _over_sets(
    settings: NetworkSettings, hidden: Sequence[int], sight: Sight, wanted: NetworkRequest, key: Key
) -> OverSets:
    turns = settings.body == "equivariant"
    if sight.slots is None or (turns and sight.plane is None):
        what = "others row by row" + (" in a plane that may be turned" if turns else "")
        raise ConfigurationError(
            f"network.body = {settings.body} reads {what}, which are not seen here; use perceptron, or a world such as "
            "mpe:spread?graph=true"
        )
    if settings.normalise:
        raise ConfigurationError(f"network.body = {settings.body} reads rows as they are; drop network.normalise")
    if turns and wanted.offset:
        raise ConfigurationError(
            "a central critic reads a joint state, of which it is not known how it turns; use ippo, or network.body = "
            "sets"
        )
    return OverSets(
        sight.slots,
        wanted.inputs,
        hidden,
        wanted.outputs,
        plane=sight.plane if turns else None,
        acts=wanted.actor,
        offset=wanted.offset,
        last_gain=wanted.gain,
        key=key,
    )

"""Action values with messages of those neighbours alone whose presence changes the best action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import Slots
from hocket.policies.action_values import ChoiceValues
from hocket.policies.control_attention import linear
from hocket.policies.control_bodies import Memory
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import NetworkRequest, PartHost
from hocket.policies.settings import NetworkSettings

Asking = Literal["selective", "everyone", "nobody"]
"""Which neighbours an agent hears: those without which it would act otherwise, all that it is shown, or none."""

_PLACE = 16
"""Numbers that stand for the cell where a neighbour is."""


@dataclass(frozen=True)
class MessageSight:
    """A `SightForm`: an agent's own numbers, which begin with a grid of two channels, and rows of neighbours.

    Attributes:
        slots: the layout. sight: cells seen to each side. choices: actions. asking: see `Asking`.
    """

    slots: Slots
    sight: int
    choices: int
    asking: Asking

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        if settings.body != "perceptron" or settings.normalise or not hidden or not wanted.actor:
            raise ConfigurationError(
                "messages are read by a network of its own, whose layers are network.hidden, one at least; drop "
                "network.body and network.normalise"
            )
        return MessageNetwork(self, hidden, wanted.outputs, last_gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {"asking": self.asking}


class MessageNetwork(nn.Module):
    """`[B, O]` to `[B, outputs]`, of which the last `choices` order the actions.

    An agent encodes its own numbers, h = e(o). Of every neighbour it asks whether, with the neighbour's mark taken out
    of its own window, it would act otherwise by `out(h)`; then it hears the neighbour's e(o_j). With the keys and
    values of (norm(h_j), where j is), attention of norm(h) gives m, and

        y = GRU(m, h),   h' = GRU(f(norm(y)), y),

    f a perceptron with one layer. Who asks nobody keeps h. The outputs are `out(h')`. Attention has one head.
    """

    def __init__(self, sight: MessageSight, hidden: Sequence[int], outputs: int, *, last_gain: float, key: Key) -> None:
        super().__init__()
        self.sight, width = sight, hidden[-1]
        self.encoder = Perceptron(
            (sight.slots.own, *hidden), last_gain=math.sqrt(2), key=key.derive("encoder"), activation="relu"
        )
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.cell = linear((2 * sight.sight + 1) ** 2, _PLACE, key.derive("cell"))
        self.query = linear(width, width, key.derive("query"))
        self.message = linear(width + _PLACE, 2 * width, key.derive("message"))
        self.joined = linear(width, width, key.derive("joined"))
        self.hear = Memory(width, (width,), key=key.derive("hear"))
        self.wide, self.narrow = (linear(width, width, key.derive(name)) for name in ("wide", "narrow"))
        self.keep = Memory(width, (width,), key=key.derive("keep"))
        self.out = Perceptron((width, outputs), last_gain=last_gain, key=key.derive("out"))

    def forward(self, inputs: Tensor) -> Tensor:
        slots = self.sight.slots
        numbers, rows = inputs[:, : slots.own], inputs[:, slots.own :].reshape(len(inputs), slots.count, slots.size)
        state = self.encoded(numbers)
        requested = self.requests(numbers, rows, state)
        listens = requested.any(1)
        if bool(listens.any()):
            heard = self.heard(state[listens], rows[listens], requested[listens])
            state = state.index_put((listens,), heard)
        outputs: Tensor = self.out(state)
        return outputs

    def encoded(self, numbers: Tensor) -> Tensor:
        return torch.relu(self.encoder(numbers))

    def cells(self, rows: Tensor) -> Tensor:
        """The number of the cell of the window where each neighbour is, `[B, R]`."""
        sight = self.sight.sight
        place = (rows[..., 1:3] * sight).round().long() + sight
        return place[..., 0] * (2 * sight + 1) + place[..., 1]

    def requests(self, numbers: Tensor, rows: Tensor, state: Tensor) -> Tensor:
        """Which neighbours are asked, `[B, R]`; of `state` `[B, width]`, the encoded `numbers`."""
        there = rows[..., 0] > 0
        if self.sight.asking != "selective":
            return there & (self.sight.asking == "everyone")
        with torch.no_grad():
            row, number = torch.nonzero(there, as_tuple=True)
            alone = numbers[row]
            window = (2 * self.sight.sight + 1) ** 2
            alone[torch.arange(len(row)), window + self.cells(rows)[row, number]] = 0.0
            other = self.best(self.encoded(alone)) != self.best(state)[row]
            return torch.zeros_like(there).index_put((row, number), other)

    def best(self, state: Tensor) -> Tensor:
        """The best action without messages, `[B]`."""
        outputs: Tensor = self.out(state)
        return outputs[:, -self.sight.choices :].argmax(1)

    def heard(self, state: Tensor, rows: Tensor, requested: Tensor) -> Tensor:
        """States after messages, `[B, width]`, of agents that ask somebody."""
        others = self.encoded(rows[..., -self.sight.slots.own :])
        cells = functional.one_hot(self.cells(rows), (2 * self.sight.sight + 1) ** 2).to(state.dtype)
        keys, values = self.message(torch.cat([self.first(others), self.cell(cells)], -1)).chunk(2, -1)
        score = (self.query(self.first(state))[:, None] * keys).sum(-1) / math.sqrt(keys.shape[-1])
        share = torch.softmax(score.masked_fill(~requested, -torch.inf), -1)
        received = self.joined((share[..., None] * values).sum(1))
        middle = self.hear.onto(received, state)
        return self.keep.onto(self.narrow(torch.relu(self.wide(self.second(middle)))), middle)


@dataclass(frozen=True)
class MessagedValues(ChoiceValues):
    """`ChoiceValues` by a `MessageNetwork`, for worlds whose agents are shown what their neighbours see.

    Attributes:
        asking: see `Asking`.
    """

    duelling: bool = True
    asking: Asking = "selective"

    needed: ClassVar[str] = "what neighbours see"
    advice: ClassVar[str] = "use mapf:neighbours"

    def begin(self, host: PartHost) -> None:
        slots, shape = host.sight.slots, host.sight.shape
        if slots is None or len(shape) != 3 or shape[0] != 2 or slots.size <= slots.own:
            raise ConfigurationError(
                f"policy {host.name!r}: messages are made of what neighbours see, which this task does not show; use "
                "mapf:neighbours"
            )
        if host.observations != slots.own + slots.count * slots.size:
            raise ConfigurationError(f"policy {host.name!r}: neighbours have no numbers (ids); drop ids")
        form = MessageSight(slots, shape[1] // 2, host.actions, self.asking)
        host.sight = replace(host.sight, form=form)
        super().begin(host)

"""The log of a session as an agent sees it, and networks that sum it up by an LSTM."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import NetworkRequest
from hocket.policies.settings import NetworkSettings

UNITS = 16
"""Of the LSTM."""


class Summary(nn.Module):
    """An LSTM (Hochreiter & Schmidhuber 1997): its output after the rows of a log that hold an entry, 0 after none.

    Initial weights are uniform within one over the root of the units, as in `torch.nn.LSTM`.
    """

    def __init__(self, size: int, key: Key) -> None:
        super().__init__()
        bound, draw = 1 / math.sqrt(UNITS), key.derive("lstm").torch()
        shapes = ((4 * UNITS, size), (4 * UNITS, UNITS), (4 * UNITS,), (4 * UNITS,))
        self.weights = nn.ParameterList(torch.empty(shape).uniform_(-bound, bound, generator=draw) for shape in shapes)

    def forward(self, log: Tensor) -> Tensor:
        """`[B, UNITS]` of logs `[B, L, size]`, whose entries come first and begin with a 1."""
        blank = log.new_zeros(1, len(log), UNITS)
        weights = [weight.to(log) for weight in self.weights]
        states = torch.lstm(log, [blank, blank], weights, True, 1, 0.0, False, False, True)[0]
        states = torch.cat([blank.transpose(0, 1), states], 1)
        return states[torch.arange(len(log)), log[..., 0].sum(1).long()]


class Reader(nn.Module):
    """A perceptron of what N agents see, whose logs the same `Summary` sums up, and of other numbers behind: `[B, I]`.

    Attributes:
        log: the layout of what each sees. agents: N.
    """

    def __init__(
        self, log: SessionLog, agents: int, more: int, sizes: Sequence[int], *, activation: Any, gain: float, key: Key
    ) -> None:
        super().__init__()
        self.log, self.agents = log, agents
        self.summary = Summary(1 + log.size, key.derive("summary"))
        inputs = agents * (log.own + UNITS) + more
        self.after = Perceptron((inputs, *sizes), last_gain=gain, key=key.derive("after"), activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        log = self.log
        sights, more = x[:, : self.agents * log.observations], x[:, self.agents * log.observations :]
        rows = sights.reshape(-1, log.observations)
        state = self.summary(log.entries(rows[:, log.own :].reshape(len(rows), log.length, 1 + log.size)))
        outputs: Tensor = self.after(
            torch.cat([torch.cat([rows[:, : log.own], state], 1).reshape(len(x), -1), more], 1)
        )
        return outputs


class SessionCritic(nn.Module):
    """A `Reader` with one output, as an action value: `[B, I]` to `[B, 1]`."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """`frozen` takes the weights as constants."""
        if not frozen:
            return self.reader(x)  # type: ignore[no-any-return]
        weights = {name: weight.detach() for name, weight in self.reader.named_parameters()}
        return functional_call(self.reader, weights, (x,))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SessionLog:
    """A `SightForm`: `own` numbers, then `length` rows of a log, whose entries come first.

    A row is 1 where it holds an entry, then `size` numbers of a past moment: those of the agent itself, then those of
    the others.

    Attributes:
        mine: how many of an entry's numbers are the agent's own. messages: whether the others' are read.
    """

    own: int
    length: int
    size: int
    mine: int
    messages: bool = True

    @property
    def observations(self) -> int:
        return self.own + self.length * (1 + self.size)

    def entries(self, log: Tensor) -> Tensor:
        """What is read of logs `[B, L, 1 + size]`."""
        if self.messages:
            return log
        return torch.cat([log[..., : 1 + self.mine], torch.zeros_like(log[..., 1 + self.mine :])], -1)

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        """See `SightForm.network`."""
        if settings.body != "perceptron" or settings.normalise or wanted.offset:
            raise ConfigurationError(
                "logs of sessions are read by an LSTM and a perceptron of their own, and no joint state beside them; "
                "drop network.body and network.normalise, and use a recipe such as mardpg-ads or ippo"
            )
        sizes, more = (*hidden, wanted.outputs), wanted.inputs - self.observations
        return Reader(self, 1, more, sizes, activation=settings.activation, gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {"session": [self.own, self.length, self.size], "messages": self.messages}

"""Attention over the targets that a pursuer is shown, however many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_attention import layers_of, linear
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import NetworkRequest
from hocket.policies.settings import NetworkSettings


@dataclass(frozen=True)
class TargetRows:
    """A `SightForm`: `rows` of `size` numbers, read by a `TargetAttention`, whose weights know no number of rows.

    Attributes:
        actions: choices of a pursuer.
    """

    rows: int
    size: int
    actions: int

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that weights depend on."""
        return {"row": self.size, "actions": self.actions}

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        if settings.body != "perceptron" or settings.normalise or wanted.inputs != self.rows * self.size:
            raise ConfigurationError(
                "targets are read by attention over their rows alone, whose width is network.hidden; drop "
                "network.body, network.normalise, critics of joint states, ids and wrappers of the task"
            )
        return TargetAttention(self.size, hidden, wanted.outputs, last_gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {}


class TargetAttention(nn.Module):
    """Blocks of attention among rows, a layer for each of `hidden`, of that width; their sum; and a perceptron.

    `[B, R * size]` to `[B, outputs]`, for any number of rows R in any order.
    """

    def __init__(self, size: int, hidden: Sequence[int], outputs: int, *, last_gain: float, key: Key) -> None:
        super().__init__()
        width, self.blocks = layers_of(hidden, key)
        self.size, self.into = size, linear(size, width, key.derive("into"))
        self.after = Perceptron(
            (width, width, outputs), last_gain=last_gain, key=key.derive("after"), activation="relu"
        )

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.into(inputs.reshape(len(inputs), -1, self.size))
        every = x.new_ones(1, 1, 1, 1, dtype=torch.bool)
        for block in self.blocks:
            x = block(x, every)
        outputs: Tensor = self.after(x.sum(1))
        return outputs

"""Bodies of control networks besides the perceptron: one that carries a state from decision to decision, one for grids.

All are initialised from a key, and give `[.., outputs]` for inputs `[.., I]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_networks import Perceptron


class Carrying(nn.Module):
    """A body that carries something from decision to decision of an episode.

    Attributes:
        carries: how many numbers, 0 before the first decision.
    """

    carries: int

    def step(self, inputs: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs `[B, outputs]` at the next decision of each row, `[B, I]`, and what is carried on, `[B, carries]`."""
        raise NotImplementedError

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs `[U, L, outputs]` at every decision of U sequences from their beginning, `[U, L, I]`."""
        raise NotImplementedError


class Memory(nn.Module):
    """A gated recurrent unit (Cho et al. 2014): its state after each input depends on all inputs so far.

    Inputs pass the layers `hidden[:-1]` with tanh, then `hidden[-1]` gated units, whose state it carries and which
    start at 0. Recurrent weights are orthogonal per gate.

    Raises:
        ConfigurationError: without any hidden units.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], *, key: Key) -> None:
        super().__init__()
        if not hidden:
            raise ConfigurationError("network.hidden is empty, and a recurrent body carries its last layer; name one")
        *before, self.carries = hidden
        self.before = Perceptron((inputs, *before), last_gain=math.sqrt(2), key=key.derive("before"))
        narrow = before[-1] if before else inputs
        self.into = nn.Parameter(_gates(narrow, self.carries, key.derive("into")))
        self.onward = nn.Parameter(_gates(self.carries, self.carries, key.derive("onward")))
        self.bias_into = nn.Parameter(torch.zeros(3 * self.carries))
        self.bias_onward = nn.Parameter(torch.zeros(3 * self.carries))

    def _read(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.before(inputs)) if len(self.before.weights) else inputs

    def onto(self, inputs: Tensor, carried: Tensor) -> Tensor:
        """The states `[B, carries]` after the next input of each row, `[B, I]`."""
        return torch.gru_cell(self._read(inputs), carried, self.into, self.onward, self.bias_into, self.bias_onward)

    def states(self, inputs: Tensor) -> Tensor:
        """The states `[U, L, carries]` after every input of U sequences from their beginning, `[U, L, I]`."""
        weights: list[Tensor] = [self.into, self.onward, self.bias_into, self.bias_onward]
        start = inputs.new_zeros(1, len(inputs), self.carries)
        states, _ = torch.gru(self._read(inputs), start, weights, True, 1, 0.0, False, False, True)
        return states


class Recurrent(Memory, Carrying):
    """A `Memory` as a body: what it gives, a linear layer of its state, depends on all inputs so far."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, *, last_gain: float, key: Key) -> None:
        super().__init__(inputs, hidden, key=key)
        self.after = Perceptron((self.carries, outputs), last_gain=last_gain, key=key.derive("after"))

    def step(self, inputs: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        state = self.onto(inputs, carried)
        return self.after(state), state

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.after(self.states(inputs))
        return outputs


def _gates(narrow: int, wide: int, key: Key) -> Tensor:
    """Weights of the three gates, one above the other: `[3 * wide, narrow]`."""
    parts = [torch.zeros(wide, narrow) for _ in range(3)]
    for number, part in enumerate(parts):
        nn.init.orthogonal_(part, 1.0, generator=key.derive("gate", number).torch())
    return torch.cat(parts)


_CHANNELS = (16, 32)
_SMALL = 8
"""Cells a side up to which a grid is read at every cell; larger ones are halved, layer by layer."""


class Convolution(nn.Module):
    """Layers of 3 x 3 filters over a grid, then a perceptron that also reads the other numbers as they are.

    The grid is the `shape` that stands in the inputs from number `offset` on: height and width, or these with channels
    before or after them, whichever of the two ends is smaller. Two layers at least, with 16 and 32 channels and
    rectified; while a side is longer than 8, a layer takes every second cell, and there are as many as that needs.
    """

    def __init__(
        self,
        shape: Sequence[int],
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        offset: int = 0,
        last_gain: float,
        key: Key,
    ) -> None:
        super().__init__()
        self.shape, self.offset = tuple(shape), offset
        self.last = len(shape) == 3 and shape[2] < shape[0]
        channels = 1 if len(shape) == 2 else min(shape[0], shape[2])
        height, width = shape if len(shape) == 2 else (shape[:2] if self.last else shape[1:])
        filters: list[Tensor] = []
        self.strides: list[int] = []
        while len(filters) < len(_CHANNELS) or max(height, width) > _SMALL:
            wide = _CHANNELS[min(len(filters), len(_CHANNELS) - 1)]
            stride = 2 if max(height, width) > _SMALL else 1
            part = torch.zeros(wide, channels, 3, 3)
            nn.init.orthogonal_(part, math.sqrt(2), generator=key.derive("filter", len(filters)).torch())
            filters.append(part)
            self.strides.append(stride)
            channels, height, width = wide, -(-height // stride), -(-width // stride)
        self.filters = nn.ParameterList(filters)
        self.shifts = nn.ParameterList([torch.zeros(len(part)) for part in filters])
        rest = inputs - math.prod(shape)
        self.after = Perceptron((channels * height * width + rest, *hidden, outputs), last_gain=last_gain, key=key)

    def forward(self, inputs: Tensor) -> Tensor:
        end = self.offset + math.prod(self.shape)
        grid = inputs[:, self.offset : end].reshape(len(inputs), *self.shape)
        if grid.dim() == 3:
            grid = grid[:, None]
        elif self.last:
            grid = grid.permute(0, 3, 1, 2)
        for part, shift, stride in zip(self.filters, self.shifts, self.strides, strict=True):
            grid = torch.relu(functional.conv2d(grid, part, shift, stride=stride, padding=1))
        flat = torch.cat([grid.flatten(1), inputs[:, : self.offset], inputs[:, end:]], 1)
        outputs: Tensor = self.after(flat)
        return outputs

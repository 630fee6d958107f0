"""Attention over a window of the latest decisions, as the body of a control network."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_bodies import Carrying
from hocket.policies.control_networks import Perceptron

_HEAD = 32
"""Units of an attention head, where the width allows it."""


class AttentionBlock(nn.Module):
    """A layer of attention and a perceptron, each added to what it reads normalised: `[B, L, D]` to the same.

    Attention is causal, or goes where a mask `[B, 1, 1 or L, L]` is true.
    """

    def __init__(self, width: int, *, key: Key) -> None:
        super().__init__()
        self.heads = max(1, width // _HEAD) if width % _HEAD == 0 else 1
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joint, self.out = linear(width, 3 * width, key.derive("joint")), linear(width, width, key.derive("out"))
        self.wide = linear(width, 4 * width, key.derive("wide"))
        self.narrow = linear(4 * width, width, key.derive("narrow"))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, keys, values = (
            part.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for part in self.joint(self.first(x)).chunk(3, -1)
        )
        causal = mask is None
        attended = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=causal)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        added: Tensor = self.narrow(functional.relu(self.wide(self.second(x))))
        return x + added


def linear(narrow: int, wide: int, key: Key) -> nn.Linear:
    """A layer with normal weights of variance 1 / inputs, and biases 0."""
    made = nn.Linear(narrow, wide, device="meta").to_empty(device="cpu")  # Else the global generator draws weights.
    with torch.no_grad():
        made.weight.normal_(0.0, 1 / math.sqrt(max(narrow, 1)), generator=key.torch())
        made.bias.zero_()
    return made


class WindowBody(Carrying):
    """A body that reads the latest `window` decisions; it carries their inputs, and how many there are.

    Every decision is read from the beginning of its own window, in learning too, so that it depends on the same inputs
    as when it was sampled.
    """

    def __init__(self, inputs: int, window: int) -> None:
        super().__init__()
        if window < 1:
            raise ConfigurationError(f"network.window = {window}: a window has at least 1 decision")
        self.inputs, self.window, self.carries = inputs, window, window * inputs + 1

    def read(self, rows: Tensor) -> Tensor:
        """Outputs `[B, L, outputs]` at every decision of a window of at most `window`, `[B, L, I]`."""
        raise NotImplementedError

    def step(self, inputs: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        rows, count = carried[:, :-1].reshape(-1, self.window, self.inputs), carried[:, -1:]
        full = (count >= self.window)[..., None]
        rows = torch.where(full, rows.roll(-1, 1), rows)
        place = count.clamp(max=self.window - 1)
        chosen = (torch.arange(self.window, dtype=count.dtype) == place)[..., None]
        rows = torch.where(chosen, inputs[:, None], rows)
        outputs = (self.read(rows) * chosen).sum(1)
        return outputs, torch.cat([rows.flatten(1), (count + 1).clamp(max=self.window)], 1)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.read(inputs[:, : self.window])
        beyond = inputs.shape[1] - self.window
        if beyond <= 0:
            return outputs
        windows = inputs.unfold(1, self.window, 1)[:, 1:].transpose(2, 3)
        last = self.read(windows.flatten(0, 1))[:, -1].reshape(len(inputs), beyond, -1)
        return torch.cat([outputs, last], 1)


def layers_of(hidden: Sequence[int], key: Key) -> tuple[int, nn.ModuleList]:
    """The width of an attention body, and its blocks: one for each of `hidden`.

    Raises:
        ConfigurationError: for none, or layers of unequal width.
    """
    if len(set(hidden)) != 1:
        raise ConfigurationError(
            f"network.hidden = {list(hidden)}: attention has layers of one width; repeat it, such as [64, 64]"
        )
    return hidden[0], nn.ModuleList(AttentionBlock(width, key=key.derive("block", n)) for n, width in enumerate(hidden))


class Attention(WindowBody):
    """Blocks of causal attention over a window, with learnt places: a layer for each of `hidden`, of that width."""

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, *, window: int, last_gain: float, key: Key
    ) -> None:
        super().__init__(inputs, window)
        width, self.blocks = layers_of(hidden, key)
        self.into = linear(inputs, width, key.derive("into"))
        self.places = nn.Parameter(0.02 * torch.randn(window, width, generator=key.derive("places").torch()))
        self.last = nn.LayerNorm(width)
        self.after = Perceptron((width, outputs), last_gain=last_gain, key=key.derive("after"))

    def read(self, rows: Tensor) -> Tensor:
        x = self.into(rows) + self.places[: rows.shape[1]]
        for block in self.blocks:
            x = block(x)
        outputs: Tensor = self.after(self.last(x))
        return outputs

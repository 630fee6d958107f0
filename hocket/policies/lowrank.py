"""Low-rank adapters unmerged (Hu et al. 2021): what they add to products, for one policy or for each row its own.

An adapted layer computes `x W^T + b + (x A^T) B^T alpha / r`. The products with A and B are made in the type that the
one with W is made in, and what they give is added to its sum before that is rounded. So in bf16 a small update is not
lost against the larger sum, and a policy whose adapter is zero or off computes its base to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from hocket.policies.fused_operations import ALIKE, known_product, prepared, product
from hocket.policies.lora import active_adapter, base_of
from hocket.policies.stored_weights import CodedMatrix, coded_product

RANKS = 16
"""Ranks are filled up with zeros to a multiple of this: a product with one column gives a row other bits in other
company."""

Span = tuple[int, slice | Tensor]
"""A policy's number, and its rows."""


class JoinedLinear:
    """Linear layers on one input as one function of `scale * x`, outputs side by side, adapters left out.

    They are joined into one matrix, with `scale` `[H]` (a norm's weight) multiplied into it, unless that copy would be
    large, or the weights are in codes or in what is multiplied in. What is made here belongs to the weights of the
    moment.

    Args:
        layers: `nn.Linear`s, with an adapter or without.
        dtype: what to multiply in. large: whether to do without copies; the weights are then of this type.

    Attributes:
        copies: what was made of the weights.
    """

    def __init__(self, layers: Sequence[Any], scale: Tensor | None, dtype: torch.dtype, *, large: bool) -> None:
        plain = [base_of(layer) for layer in layers]
        weights = [getattr(layer, "coded", layer.weight) for layer in plain]
        # Weights that are stored in what is multiplied in, or in codes, need no copy.
        coded = isinstance(weights[0], CodedMatrix)
        large = large or coded or weights[0].dtype is dtype is torch.bfloat16
        self._scale = scale if large else None
        self._weights: list[Tensor | CodedMatrix] = weights if large else [prepared(weights, scale, dtype)]
        self.copies: list[Tensor] = [] if large else cast(list[Tensor], self._weights)
        self._sizes = [weight.shape[0] for weight in self._weights]
        self.width = sum(self._sizes)
        self.bias: Tensor | None = None
        if any(layer.bias is not None for layer in plain):
            biases = [
                layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in plain
            ]
            self.bias = torch.cat(biases).to(dtype)

    @property
    def single(self) -> tuple[Tensor, Tensor | None] | None:
        """The one matrix that everything is in, and its bias; None where there is more to it."""
        weight = self._weights[0]
        plain = len(self._weights) == 1 and self._scale is None and isinstance(weight, Tensor)
        return (weight, self.bias) if plain and isinstance(weight, Tensor) else None

    def __call__(self, x: Tensor, more: Tensor | None = None) -> Tensor:
        """`[.., N]` of x `[.., H]`; with `more` `[.., N]` added in place of the bias."""
        if self._scale is not None:
            x = (x * self._scale).to(x.dtype)
        if more is not None:
            rest = torch.split(more, self._sizes, -1)
            parts = [added(part, x, weight) for part, weight in zip(rest, self._weights, strict=True)]
        else:
            biases = [None] * len(self._sizes) if self.bias is None else torch.split(self.bias, self._sizes)
            parts = [_product(x, weight, bias) for weight, bias in zip(self._weights, biases, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def known(self, x: Tensor, out: Tensor) -> Tensor:
        """The same as calling it, where the result `out` is known: differentiable, but nothing is computed."""
        if self._scale is not None:
            x = (x * self._scale).to(x.dtype)
        biases = [None] * len(self._sizes) if self.bias is None else torch.split(self.bias, self._sizes)
        outs = torch.split(out, self._sizes, -1)
        parts = [
            known_product(x, *inputs) for inputs in zip(cast(list[Tensor], self._weights), biases, outs, strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _product(x: Tensor, weight: Tensor | CodedMatrix, bias: Tensor | None) -> Tensor:
    return coded_product(x, weight, bias) if isinstance(weight, CodedMatrix) else product(x, weight, bias)


def added(more: Tensor, x: Tensor, weight: Tensor | CodedMatrix) -> Tensor:
    """more + x W^T, rounded once; each row's result depends on that row alone, to the last bit."""
    if isinstance(weight, CodedMatrix):
        return coded_product(x, weight, more=more)
    rows = x.numel() // x.shape[-1]
    if weight.shape[0] == 1:
        return added(more.expand(*more.shape[:-1], ALIKE), x, weight.expand(ALIKE, -1))[..., :1].contiguous()
    flat, to = x.reshape(rows, -1), more.reshape(rows, -1)
    if rows < ALIKE and x.device.type == "cpu":
        flat, to = (F.pad(part, (0, 0, 0, ALIKE - rows)) for part in (flat, to))
    return torch.addmm(to, flat, weight.t())[:rows].view(*x.shape[:-1], -1)


class LowRank:
    """What the adapters of linear layers on one input add, as one: `x down^T up^T`.

    Args:
        down: `[R, H]`. up: `[N, R]`. gain: what the layers' sums are multiplied by, `[N]`; None for nothing.
    """

    def __init__(self, down: Tensor, up: Tensor, gain: Tensor | None = None) -> None:
        self._down, self._up, self._gain = down, up, gain

    @property
    def multiplies(self) -> bool:
        """Whether the layers' sums are multiplied."""
        return self._gain is not None

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """`[.., N]` of x `[.., H]`, the layers' bias included unless sums are multiplied."""
        return product(product(x, self._down, None), self._up, bias if self._gain is None else None)

    def scaled(self, sums: Tensor, bias: Tensor | None) -> Tensor:
        """The layers' results `[.., N]` of their sums with what is added."""
        if self._gain is None:
            return sums
        return sums * self._gain if bias is None else sums * self._gain + bias


def low_rank(layers: Sequence[Any], scale: Tensor | None, dtype: torch.dtype) -> LowRank | None:
    """The adapters that are on now, as a function of x where the layers are ones of `scale * x`; None without any."""
    adapters = [active_adapter(layer) for layer in layers]
    downs = [adapter.down for adapter in adapters if adapter is not None]
    if not downs:
        return None
    down = prepared(downs, scale, dtype)
    filling = -len(down) % RANKS
    width, before, ups, gains = len(down) + filling, 0, [], []
    for layer, adapter in zip(layers, adapters, strict=True):
        gain = None if adapter is None else adapter.gain
        gains.append(downs[0].new_ones(base_of(layer).out_features) if gain is None else gain)
        if adapter is None:
            ups.append(downs[0].new_zeros(base_of(layer).out_features, width))
        else:
            rank = len(adapter.down)
            ups.append(F.pad(adapter.up * adapter.scaling, (before, width - rank - before)))
            before += rank
    multiplied = any(adapter is not None and adapter.gain is not None for adapter in adapters)
    gain = torch.cat(gains).to(dtype) if multiplied else None
    return LowRank(F.pad(down, (0, 0, 0, filling)), torch.cat(ups).to(dtype), gain)


class Owners:
    """Which rows of the products being made belong to which policy."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def say(self, owner: NDArray[np.int32]) -> None:
        """From now on the rows of every product belong to `owner` `[M]`."""
        self.spans = []
        for number in np.unique(owner).tolist():
            rows = np.flatnonzero(owner == number)
            first, last = int(rows[0]), int(rows[-1]) + 1
            together = last - first == len(rows)
            self.spans.append((number, slice(first, last) if together else torch.from_numpy(rows)))


class MixedLinear:
    """A joined product in which each row has its owner's adapter; not differentiable.

    A row's result is to the last bit what it is where all rows have one adapter.

    Args:
        adapters: by number of policy; None where it has none here.
        owners: of the rows, which may change from product to product.
    """

    def __init__(self, base: JoinedLinear, adapters: Sequence[LowRank | None], owners: Owners) -> None:
        self._base, self._adapters, self._owners = base, adapters, owners
        self._any = any(adapter is not None for adapter in adapters)

    def __call__(self, x: Tensor) -> Tensor:
        """`[M, N]` of x `[M, H]`."""
        if not self._any:
            return self._base(x)
        parts = [(self._of(number, x[rows]), rows) for number, rows in self._owners.spans]
        if len(parts) == 1:
            return self._scaled(self._base(x, parts[0][0]))
        more = x.new_zeros(len(x), self._base.width)
        for part, rows in parts:
            if part is not None:
                more[rows] = part
        return self._scaled(self._base(x, more))

    def _scaled(self, sums: Tensor) -> Tensor:
        """Each row as its owner's adapter multiplies it."""
        for number, rows in self._owners.spans:
            adapter = self._adapters[number]
            if adapter is not None and adapter.multiplies:
                sums[rows] = adapter.scaled(sums[rows], self._base.bias)
        return sums

    def _of(self, number: int, x: Tensor) -> Tensor | None:
        """What is added to the rows `x` of a policy; None for nothing."""
        adapter, bias = self._adapters[number], self._base.bias
        if adapter is not None:
            return adapter(x, bias)
        return None if bias is None else bias.expand(len(x), -1)

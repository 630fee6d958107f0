"""Matrix products among the fused loops: made by the library that torch multiplies with, called without Python between.

A product has the bits of `torch.nn.functional.linear` over at least `ALIKE` rows. Where torch's library does not offer
its product of fp32 matrices, or gives other bits, `address` is None and nothing of this can be called.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.kernels import _OPENINGS, Opening, ScoreBounds, _call, _expect, _half, available

_PROBES = ((16, 48, 64), (33, 96, 384), (128, 128, 576))
"""Rows and both widths of products that are compared with torch's own."""


class SortedChoices(NamedTuple):
    """SortedChoices of K groups for each of M rows, sorted by group.

    Attributes:
        place: of each choice in that order, `[M, K]` int32. row: whose choice stands at a place, `[M K]` int32.
        start: where a group's choices begin, and where the last ones end, `[E + 1]` int64.
    """

    place: Tensor
    row: Tensor
    start: Tensor


@functools.cache
def address() -> int | None:
    """Where torch's product of fp32 matrices is."""
    file = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not available() or not file.is_file():
        return None
    function = getattr(ctypes.CDLL(str(file)), "sgemm_", None)
    place = None if function is None else ctypes.cast(function, ctypes.c_void_p).value
    return place if place is not None and _as_torch(place) else None


def _as_torch(gemm: int) -> bool:
    draw = torch.Generator().manual_seed(0)
    for rows, outputs, inputs in _PROBES:
        x, weight, bias = (
            torch.randn(size, generator=draw) for size in ((rows, inputs), (outputs, inputs), (outputs,))
        )
        for more in (None, bias):
            out = torch.empty(rows, outputs)
            _call("linear", gemm, x, weight, more, out, rows, outputs, inputs, 0)
            if not out.equal(F.linear(x, weight, more)):
                return False
    return True


def multiplies(*tensors: Tensor) -> bool:
    """Whether products of such tensors are made here."""
    return all(x.device.type == "cpu" and x.dtype is torch.float32 for x in tensors) and address() is not None


def sorted_choices(chosen: Tensor, groups: int) -> SortedChoices:
    """Of `chosen` `[M, K]` int64."""
    _expect(torch.int64, chosen)
    place = torch.empty(chosen.shape, dtype=torch.int32)
    row = torch.empty(chosen.numel(), dtype=torch.int32)
    start = torch.empty(groups + 1, dtype=torch.int64)
    _call("sort_choices", chosen, place, row, start, *chosen.shape, groups)
    return SortedChoices(place, row, start)


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None, start: Tensor, *, across: bool) -> Tensor:
    """`x W^T + b` `[P, N]` of each group's rows by its weight `[E, N, K]` (`[E, K, N]` across) and bias `[E, N]`."""
    _expect(torch.float32, x, weight)
    groups, inputs = len(weight), x.shape[1]
    outputs = weight.shape[2 if across else 1]
    out = torch.empty(len(x), outputs)
    _call("grouped_linear", address(), x, weight, bias, start, out, groups, outputs, inputs, int(across))
    return out


def grouped_outer(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """Per group the sum of `a^T b` over its rows, `[E, N, K]`; zeros for a group without rows."""
    _expect(torch.float32, a, b)
    groups = len(start) - 1
    out = torch.empty(groups, a.shape[1], b.shape[1])
    _call("grouped_outer", address(), a, b, start, out, groups, a.shape[1], b.shape[1])
    return out


def sum_places(x: Tensor, place: Tensor, share: Tensor | None) -> Tensor:
    """`sum_k share[m, k] x[place[m, k]]` `[M, H]` of x `[P, H]`, from the first k to the last; share fp32, or None."""
    _expect(torch.int32, place)
    out = x.new_empty(len(place), x.shape[1])
    _call("sum_places", _half(x.dtype), x, place, share, out, *place.shape, x.shape[1])
    return out


def dot_rows(a: Tensor, b: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Products of rows of a and b `[P, N]`, `[P]` fp32, and b with each row times its share `[P]` fp32."""
    _expect(a.dtype, b)
    dots, scaled = torch.empty(len(a)), torch.empty_like(b)
    _call("dot_rows", _half(a.dtype), a, b, share, dots, scaled, *a.shape)
    return dots, scaled


class LayerWeights(NamedTuple):
    """A decoder layer of the usual form: RMSNorm before each part, whose weight the matrices include, and one matrix
    for each product; a gated feed-forward part, or another that is not described here.

    Attributes:
        matrices: for queries, keys and values `[(H + 2 S) D, W]`, attention's output, gate and up `[2 F, W]`, and back;
            each with its bias or None. The last two are missing where something else feeds forward.
        turn: the weight of the norm of queries and keys `[H + S, D]`, or None.
        epsilons: of the norms before attention and feed-forward, and of `turn`.
        scale, bounds: of scores. opening: what opens the gate. rotary: the name of the table of angles.
    """

    matrices: tuple[tuple[Tensor, Tensor | None], ...]
    turn: Tensor | None
    epsilons: tuple[float, float, float]
    scale: float
    bounds: ScoreBounds
    opening: Opening | None
    rotary: str | None

    @property
    def inner(self) -> int:
        """F."""
        return len(self.matrices[2][0]) // 2 if len(self.matrices) > 2 else 0


class LayerStack:
    """All layers of a decoder as one call, over pages of keys and values.

    Args:
        layers: in order. epsilon: of the last norm. heads, shared, size: of attention.
    """

    def __init__(self, layers: Sequence[LayerWeights], epsilon: float, heads: int, shared: int, size: int) -> None:
        self._layers, self._epsilon = layers, epsilon
        self._heads, self._shared, self._size = heads, shared, size
        self._width = layers[0].matrices[0][0].shape[1]
        self._inner = max(layer.inner for layer in layers)
        self._pointers = torch.zeros(len(layers), _POINTERS, dtype=torch.int64)
        self._numbers = torch.tensor(
            [(*layer.epsilons, layer.scale, layer.bounds.cap) for layer in layers], dtype=torch.float32
        )
        self._counts = torch.tensor(
            [(layer.bounds.window, layer.inner, _OPENINGS[layer.opening] if layer.opening else 0) for layer in layers],
            dtype=torch.int32,
        )
        fixed = [
            [part for pair in (*layer.matrices, *[(None, None)] * 2)[:4] for part in pair]
            + [layer.turn, None, None, layer.bounds.sinks]
            for layer in layers
        ]
        for row, tensors in zip(self._pointers, fixed, strict=True):
            _expect(torch.float32, *(tensor for tensor in tensors if tensor is not None))
            row[: len(tensors)] = torch.tensor([0 if part is None else part.data_ptr() for part in tensors])
        self._room = torch.empty(0)

    def __call__(
        self,
        x: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        angles: Mapping[str | None, tuple[Tensor, Tensor]],
        *,
        position: Tensor,
        slot: Tensor,
        table: Tensor,
        run_start: Tensor,
        run_row: Tensor,
        wanted: Tensor | None,
        feed: Callable[[int, Tensor], Tensor],
    ) -> Tensor:
        """States after the last norm, without its weight, of tokens embedded as x `[M, W]`, which changes.

        Of the `wanted` tokens `[K]`, or of all. `feed` is the feed-forward part of layers whose matrices for it are
        missing: from a layer's number and normalised states to what is added. The rest as in
        `hocket.policies.kernels.paged_attention`.
        """
        _expect(torch.float32, x, *keys, *values)
        _expect(torch.int32, position, slot, table, run_start, run_row)
        turns = [angles[layer.rotary] for layer in self._layers]
        places = [
            [part.data_ptr() for part in (*turn, key, value)]
            for turn, key, value in zip(turns, keys, values, strict=True)
        ]
        self._pointers.numpy()[:, _CHANGING] = places
        tokens, heads, shared = len(x), self._heads, self._shared
        room = tokens * (2 * self._width + 2 * (heads + shared) * self._size + 3 * self._inner + 1)
        place = self._room if room <= len(self._room) else torch.empty(room)
        if len(self._room) < room <= _KEPT:
            self._room = place
        normal, reached, last = torch.empty(tokens, self._width), torch.zeros(1, dtype=torch.int32), len(self._layers)
        first, added, rows = 0, None, tokens
        while True:
            _call(
                "all_layers",
                address(),
                x,
                added,
                normal,
                place,
                self._pointers,
                self._numbers,
                self._counts,
                reached,
                first,
                last,
                self._epsilon,
                position,
                slot,
                table,
                table.shape[1],
                run_start,
                run_row,
                len(run_row),
                wanted,
                0 if wanted is None else len(wanted),
                tokens,
                self._width,
                heads,
                shared,
                self._inner,
                head=self._size,
            )
            number = int(reached)
            if number >= last - 1 and wanted is not None:
                rows = len(wanted)
            if number == last:
                return normal[:rows]
            first, added = number + 1, feed(number, normal[:rows]).contiguous()
            _expect(torch.float32, added)


def routed(
    x: Tensor,
    chosen: Tensor,
    share: Tensor,
    opening: tuple[Tensor, Tensor | None],
    closing: tuple[Tensor, Tensor | None],
    gate: Opening,
    *,
    across: bool,
) -> Tensor:
    """What chosen experts `[M, K]` int64 make of states `[M, H]`; see `hocket.policies.row_groups.routed`."""
    _expect(torch.int64, chosen)
    _expect(torch.float32, x, share, opening[0], closing[0])
    out = torch.empty_like(x)
    inner = closing[0].shape[1 if across else 2]
    sizes = *chosen.shape, len(opening[0]), x.shape[1], inner
    _call("routed", address(), x, chosen, share, *opening, *closing, out, *sizes, _OPENINGS[gate], int(across))
    return out


_KEPT = 2**22
"""Numbers of room that are kept from call to call, at most: enough to decode by."""
_POINTERS, _CHANGING = 14, [9, 10, 12, 13]
"""Addresses of a layer's tensors, and which of them change: those of angles, keys and values."""

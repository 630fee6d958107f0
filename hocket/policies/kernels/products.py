"""Matrix products among the fused loops: made by the library that torch multiplies with, called without Python between.

A product has the bits of `torch.nn.functional.linear` over at least `ALIKE` rows. Where torch's library does not offer
its product of fp32 matrices, or gives other bits, `address` is None and nothing here can be called.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.kernels import _call, _expect, _half, available

_PROBES = ((16, 48, 64), (33, 96, 384), (128, 128, 576))
"""Rows and both widths of products that are compared with torch's own."""


class Choices(NamedTuple):
    """Choices of K groups for each of M rows, sorted by group.

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
    found = None if function is None else ctypes.cast(function, ctypes.c_void_p).value
    return found if found is not None and _as_torch(found) else None


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


def sorted_choices(chosen: Tensor, groups: int) -> Choices:
    """Of `chosen` `[M, K]` int64."""
    _expect(torch.int64, chosen)
    place = torch.empty(chosen.shape, dtype=torch.int32)
    row = torch.empty(chosen.numel(), dtype=torch.int32)
    start = torch.empty(groups + 1, dtype=torch.int64)
    _call("sort_choices", chosen, place, row, start, *chosen.shape, groups)
    return Choices(place, row, start)


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

"""Reductions over index tensors. They replace padded arithmetic and its masks everywhere in the library.

All take `values [K]` and `index [K]` (long, in `0 .. size-1`); an empty segment yields 0. Sums accumulate in the
dtype of `values`, and are differentiable in `values`.
"""

from __future__ import annotations

import torch
from torch import Tensor


def segment_sum(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sum of `values` per segment, `[size]`."""
    return torch.zeros(size, dtype=values.dtype, device=values.device).index_add(0, index, values)


def segment_count(index: Tensor, size: int) -> Tensor:
    """Members per segment, `[size]` long."""
    return torch.bincount(index, minlength=size)


def segment_mean(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Mean of `values` per segment, `[size]`."""
    return segment_sum(values, index, size) / segment_count(index, size).clamp(min=1)


def segment_std(values: Tensor, index: Tensor, size: int, *, ddof: int = 1) -> Tensor:
    """Standard deviation per segment, `[size]`; 0 where a segment has at most `ddof` members."""
    centred = values - segment_mean(values, index, size)[index]
    count = segment_count(index, size)
    variance = segment_sum(centred.square(), index, size) / (count - ddof).clamp(min=1)
    return torch.where(count > ddof, variance, torch.zeros_like(variance)).sqrt()


def segment_extreme(values: Tensor, index: Tensor, size: int, *, largest: bool) -> Tensor:
    """Maximum (or minimum) per segment, `[size]`."""
    start = torch.zeros(size, dtype=values.dtype, device=values.device)
    return start.scatter_reduce(0, index, values, "amax" if largest else "amin", include_self=False)


def suffix_sum(values: Tensor, index: Tensor, size: int, *, discount: float | Tensor = 1.0) -> Tensor:
    """Discounted sum from each member to the end of its segment, `[K]`.

    `y_k = x_k + discount * y_{k+1}` within a segment, whose members must be contiguous and in order; a tensor `[K]`
    holds the discount after each member. Not differentiable; computed in float64.
    """
    lengths = segment_count(index, size)
    columns = int(lengths.max()) if len(values) else 0
    starts = torch.cumsum(lengths, 0) - lengths
    position = torch.arange(len(values), device=values.device) - starts[index]
    padded = torch.zeros(size, columns, dtype=torch.float64, device=values.device)
    padded[index, position] = values.detach().double()
    decay = torch.zeros_like(padded)
    decay[index, position] = discount.detach().double() if isinstance(discount, Tensor) else float(discount)
    for column in range(columns - 2, -1, -1):
        padded[:, column] += decay[:, column] * padded[:, column + 1]
    return padded[index, position].to(values.dtype)

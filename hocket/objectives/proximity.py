"""Leashes to the policy that sampled."""

from __future__ import annotations

import torch
from torch import Tensor


def _total(values: Tensor, weight: Tensor) -> Tensor:
    """sum_k w_k x_k over the terms that count, a scalar."""
    used = weight != 0
    return (values[used] * weight[used]).sum()


def _once(weight: Tensor) -> Tensor:
    """The weight of a single term of the whole batch: 1, or 0 when nothing counts."""
    return torch.any(weight != 0).to(weight.dtype)[None]

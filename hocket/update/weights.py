"""The trained weights of an optimiser, and temporary changes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


def trained_weights(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """All weights of an optimiser, in its order."""
    return [weight for group in optimiser.param_groups for weight in group["params"]]


def moved_to(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Sets weights to these values, without gradient."""
    with torch.no_grad():
        for weight, value in zip(weights, values, strict=True):
            weight.copy_(value)


@contextmanager
def restored(weights: Sequence[Tensor]) -> Iterator[None]:
    """What happens to `weights` inside is undone at the end."""
    start = [weight.detach().clone() for weight in weights]
    try:
        yield
    finally:
        moved_to(weights, start)

"""Masks over actions: sampled under (see `hocket.types.ActionMask`), recorded, and applied again when learning.

The mask of every decision travels in its turn, so learning depends on nothing but what was recorded.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch


def masked(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """`logits` `[R, V]` with minus infinity where something is not allowed: probability and gradient exactly 0."""
    return logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)


def allowed_at(batch: Batch, decisions: Tensor, actions: int) -> Tensor | None:
    """The masks of `decisions` `[K]`: `[K, actions]` bool; None when no turn of the batch has any."""
    if not any(mask is not None for mask in batch.allowed):
        return None
    turn = batch.turn[decisions]
    starts = torch.searchsorted(batch.turn, torch.arange(batch.turns))
    place = (decisions - starts[turn]).tolist()
    rows: list[NDArray[np.bool_]] = []
    everything = np.ones(actions, np.bool_)
    for number, at in zip(turn.tolist(), place, strict=True):
        mask = batch.allowed[number]
        rows.append(everything if mask is None else mask[at])
    return torch.from_numpy(np.stack(rows)) if rows else torch.ones(0, actions, dtype=torch.bool)

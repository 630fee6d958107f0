"""Masks over actions that a policy's delayed copy sets: sampled from, recorded, and applied again when learning.

A policy that can do so is `Maskable`. Its delayed copy is the policy as it was at the last `refresh`; asked for the
first time, it is the policy as it is now. The mask of every decision travels in the turn, so learning does not depend
on what has become of the copy since.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.types import Batch

ALLOWED, UNMASKED = "allowed", "logp_unmasked"
"""Where a turn's `extras` keep the masks `[L, V]` bool and the log-probs under the whole distribution `[L]`."""


@runtime_checkable
class Maskable(Protocol):
    """A policy with a delayed copy of itself."""

    def refresh(self) -> None:
        """Makes the delayed copy equal to the policy as it is now."""
        ...


def nucleus(logp: Tensor, mass: float) -> Tensor:
    """The smallest set of actions that has at least `mass` in each row, `[R, V]` bool (arXiv 1904.09751).

    Ties go to the lower number. `logp` `[R, V]` is normalised; a mass of 1 allows everything.
    """
    if mass >= 1:
        return torch.ones_like(logp, dtype=torch.bool)
    ranked, order = logp.sort(dim=1, descending=True, stable=True)
    probability = ranked.double().exp()
    # An action stays while those ranked above it have not yet reached the mass.
    keep = torch.cumsum(probability, 1) - probability < mass
    return torch.zeros_like(keep).scatter(1, order, keep)


def masked(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """`logits` `[R, V]` with minus infinity where something is not allowed: probability and gradient exactly 0."""
    return logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)


def allowed_at(batch: Batch, decisions: Tensor, actions: int) -> Tensor | None:
    """The masks of `decisions` `[K]`: `[K, actions]` bool; None when no turn of the batch has any."""
    if not any(one is not None for one in batch.allowed):
        return None
    turn = batch.turn[decisions]
    starts = torch.searchsorted(batch.turn, torch.arange(batch.turns))
    place = (decisions - starts[turn]).tolist()
    rows: list[NDArray[np.bool_]] = []
    whole = np.ones(actions, np.bool_)
    for number, at in zip(turn.tolist(), place, strict=True):
        found = batch.allowed[number]
        rows.append(whole if found is None else found[at])
    return torch.from_numpy(np.stack(rows)) if rows else torch.ones(0, actions, dtype=torch.bool)

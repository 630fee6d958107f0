"""Evaluating a policy on a batch in parts, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity


def policy_decisions(batch: Batch, policy: str) -> Tensor:
    """The decisions that `policy` made, indices in 0..T-1."""
    names = batch.names["policy"]
    code = names.index(policy) if policy in names else -1
    return torch.nonzero(batch.policy[batch.turn] == code).flatten()


def evaluate_detached(
    policy: Policy, batch: Batch, needs: Iterable[Quantity], decisions: Tensor, *, reference: Policy | None = None
) -> Evaluation:
    """`policy.evaluate` without gradient, chunk by chunk, assembled into one `Evaluation` of `[T]` tensors."""
    needs = frozenset(needs)
    quantities: dict[Quantity, Tensor] = {}
    with torch.no_grad():
        for chunk in policy.chunks(batch, decisions):
            part = policy.evaluate(batch, needs, chunk, reference=reference)
            for quantity in needs | {Quantity.LOGP}:
                values = part.get(quantity)
                quantities.setdefault(quantity, torch.zeros_like(values))[chunk] = values[chunk]
    if not quantities:
        quantities = {quantity: torch.zeros(batch.decisions) for quantity in needs | {Quantity.LOGP}}
    return evaluation(quantities)


def evaluation(parts: dict[Quantity, Tensor]) -> Evaluation:
    """An `Evaluation` from tensors by quantity."""
    return Evaluation(**{quantity.value: tensor for quantity, tensor in parts.items()})

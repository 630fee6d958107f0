"""Micro-batches that keep pairs whole, so that a loss of pairs takes one pass as one of single decisions does."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.stages import Policy


def chunks_of_pairs(policy: Policy, batch: Batch, chunks: list[Tensor]) -> list[Tensor] | None:
    """`chunks` of decisions, in which what pairs connect stands together: pairs cut in two become chunks of their own.

    None where the batch has no pairs, or what they connect is more than the policy evaluates at once.
    """
    if batch.occurrences.pairs is None:
        return None
    connected = _connected(batch)
    place = torch.cat([torch.full_like(chunk, number) for number, chunk in enumerate(chunks)])
    owner = connected[torch.cat(chunks)]
    least = torch.full((batch.trajectories,), len(chunks)).scatter_reduce(0, owner, place, "amin")
    most = torch.full((batch.trajectories,), -1).scatter_reduce(0, owner, place, "amax")
    cut = least < most
    whole = [chunk[~cut[connected[chunk]]] for chunk in chunks]
    decisions = torch.cat(chunks).sort().values
    border = [decisions[connected[decisions] == one] for one in torch.nonzero(cut).flatten().tolist()]
    if any(len(policy.chunks(batch, part)) > 1 for part in border):
        return None
    return [chunk for chunk in (*whole, *border) if len(chunk)]


def _connected(batch: Batch) -> Tensor:
    """A number per decision `[T]`, the same for all that pairs and shared turns connect: a trajectory of theirs."""
    occurrences = batch.occurrences
    assert occurrences.pairs is not None
    order = torch.argsort(occurrences.decision, stable=True)
    shared = occurrences.decision[order][1:] == occurrences.decision[order][:-1]
    met = occurrences.trajectory[order]
    one = torch.cat([occurrences.pairs[:, 0], met[:-1][shared]])
    other = torch.cat([occurrences.pairs[:, 1], met[1:][shared]])
    label = torch.arange(batch.trajectories)
    while True:
        smaller = torch.minimum(label[one], label[other])
        lower = label.scatter_reduce(0, one, smaller, "amin").scatter_reduce(0, other, smaller, "amin")
        if torch.equal(lower, label):
            break
        label = lower
    connected = torch.zeros(batch.decisions, dtype=torch.long)
    connected[occurrences.decision] = label[occurrences.trajectory]
    return connected

"""Micro-batches that do not split pairs, so that pairwise losses need one pass, like losses of single decisions."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.stages import Policy


def chunks_of_pairs(policy: Policy, batch: Batch, chunks: list[Tensor]) -> list[Tensor] | None:
    """`chunks` of decisions that do not split pairs: pairs that were split become separate chunks.

    None if the batch has no pairs, or if trajectories connected by pairs exceed what the policy evaluates at once.
    """
    if batch.occurrences.pairs is None:
        return None
    connected = _connected(batch)
    place = torch.cat([torch.full_like(chunk, number) for number, chunk in enumerate(chunks)])
    owner = connected[torch.cat(chunks)]
    least = torch.full((batch.trajectories,), len(chunks)).scatter_reduce(0, owner, place, "amin")
    most = torch.full((batch.trajectories,), -1).scatter_reduce(0, owner, place, "amax")
    cut = least < most
    uncut = [chunk[~cut[connected[chunk]]] for chunk in chunks]
    decisions = torch.cat(chunks).sort().values
    border = [decisions[connected[decisions] == component] for component in torch.nonzero(cut).flatten().tolist()]
    if any(len(policy.chunks(batch, part)) > 1 for part in border):
        return None
    return [chunk for chunk in (*uncut, *border) if len(chunk)]


def _connected(batch: Batch) -> Tensor:
    """A number per decision, `[T]`, equal for all decisions that pairs and shared turns connect: a trajectory's."""
    occurrences = batch.occurrences
    assert occurrences.pairs is not None
    order = torch.argsort(occurrences.decision, stable=True)
    shared = occurrences.decision[order][1:] == occurrences.decision[order][:-1]
    met = occurrences.trajectory[order]
    left = torch.cat([occurrences.pairs[:, 0], met[:-1][shared]])
    right = torch.cat([occurrences.pairs[:, 1], met[1:][shared]])
    label = torch.arange(batch.trajectories)
    while True:
        smaller = torch.minimum(label[left], label[right])
        lower = label.scatter_reduce(0, left, smaller, "amin").scatter_reduce(0, right, smaller, "amin")
        if torch.equal(lower, label):
            break
        label = lower
    connected = torch.zeros(batch.decisions, dtype=torch.long)
    connected[occurrences.decision] = label[occurrences.trajectory]
    return connected

"""Gradients over a fixed partition of a batch, summed in one fixed binary tree: the same bits on any number of ranks.

The live decisions of a batch are split into `leaves` by whole groups, whatever computes them. A leaf's gradient is
computed alone, and leaves are added pairwise: ((0 + 1) + (2 + 3)) + ... Every rank takes as many consecutive leaves,
adds them in its part of the tree, and the rest of the tree is climbed by exchanges between ranks at the distances 1,
2, 4, ... An all-reduce adds in another order with every number of ranks, and is some 1e-7 off.

What a leaf's gradient rounds belongs to the method's numbers, so `leaves` is a setting of the run, also alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.evaluating import evaluate_detached, evaluation
from hocket.stages import Metrics
from hocket.train.oom_retry import RetryingProblem
from hocket.types import Evaluation, Quantity
from hocket.update.problem import Problem, store


class Ranks(Protocol):
    """The processes that learn one policy together. `size` is a power of two; `rank` counts from 0."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def exchanged(self, tensor: Tensor, other: int) -> Tensor:
        """What rank `other` gives for `tensor`, of its shape and type."""
        ...

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """What every rank gives, in order."""
        ...


class Exchange(Ranks, Protocol):
    """Ranks that can also give each of the others something of its own."""

    def swapped(self, tensors: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """What every rank gives this one, of these sizes; `given` are flat tensors of one type, one per rank."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """One process that learns alone."""

    rank: int = 0
    size: int = 1

    def exchanged(self, tensor: Tensor, other: int) -> Tensor:
        return tensor

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        return [tensor]


def leaves_of(batch: Batch, decisions: Tensor, count: int) -> list[Tensor]:
    """Rising decisions `[K]` of a batch in `count` parts, some of which may be empty.

    The decisions of a scenario's trajectories stay together. Scenarios go, those with most decisions first, to the part
    that has fewest; among equals the first. Nothing but the batch and `count` decides.
    """
    groups = GroupBy("scenario")(batch)
    owner = torch.zeros(batch.decisions, dtype=torch.long)
    occurrences = batch.occurrences
    # A decision that several groups saw goes with the first of them.
    order = torch.arange(len(occurrences.decision) - 1, -1, -1)
    owner[occurrences.decision[order]] = groups.index[occurrences.trajectory[order]]
    sizes = torch.bincount(owner[decisions], minlength=groups.size).tolist()
    loads, place = [0] * count, [0] * groups.size
    for group in sorted(range(groups.size), key=lambda index: (-sizes[index], index)):
        place[group] = min(range(count), key=lambda leaf: (loads[leaf], leaf))
        loads[place[group]] += sizes[group]
    leaf = torch.tensor(place, dtype=torch.long)[owner[decisions]] if len(decisions) else decisions
    return [decisions[leaf == number] for number in range(count)]


class TreeSum:
    """Adds tensors given one after the other, a power of two of them, as the leaves of a balanced binary tree."""

    def __init__(self) -> None:
        self._partial: list[Tensor | None] = []

    def add(self, leaf: Tensor) -> None:
        """The next leaf, which may be changed."""
        for level, before in enumerate(self._partial):
            if before is None:
                self._partial[level] = leaf
                return
            leaf = before.add_(leaf)
            self._partial[level] = None
        self._partial.append(leaf)

    @property
    def total(self) -> Tensor:
        """The sum at the root."""
        *below, top = self._partial
        if top is None or any(part is not None for part in below):
            raise ValueError("the number of leaves is not a power of two")
        return top


def climbed(part: Tensor, ranks: Ranks) -> Tensor:
    """The sum over all ranks of their parts of the tree: pairs of neighbours first, then pairs of pairs."""
    distance = 1
    while distance < ranks.size:
        part = part + ranks.exchanged(part, ranks.rank ^ distance)  # In either order the same bits.
        distance *= 2
    return part


class LeafGradients:
    """The gradients of some weights, leaf by leaf, as one vector."""

    def __init__(self, optimiser: torch.optim.Optimizer) -> None:
        self._optimiser = optimiser
        self._weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        self._touched = torch.zeros(len(self._weights), dtype=torch.bool)
        self._sum = TreeSum()

    def begin(self) -> None:
        """Before a leaf."""
        self._optimiser.zero_grad(set_to_none=True)

    def end(self) -> None:
        """After a leaf: its gradient is the next one of the tree, zero where it has none."""
        wide = torch.float64 if any(weight.dtype == torch.float64 for weight in self._weights) else torch.float32
        self._touched |= torch.tensor([weight.grad is not None for weight in self._weights])
        self._sum.add(torch.cat([_gradient(weight).reshape(-1).to(wide) for weight in self._weights]))

    def put(self, ranks: Ranks) -> None:
        """Puts the sum over the leaves of all ranks into `.grad`; None where no leaf had a gradient."""
        total = climbed(self._sum.total, ranks)
        touched = torch.stack(ranks.gathered(self._touched)).any(0).tolist()
        parts = torch.split(total, [weight.numel() for weight in self._weights])
        for weight, part, known in zip(self._weights, parts, touched, strict=True):
            weight.grad = part.reshape(weight.shape).to(weight.dtype) if known else None


def _gradient(weight: Tensor) -> Tensor:
    return torch.zeros_like(weight) if weight.grad is None else weight.grad.detach()


@dataclass
class LeafProblem(RetryingProblem):
    """A problem whose gradients are summed over `leaves`, of which each of the `ranks` computes its share.

    Batches and their numbers are the same on all ranks, and so is every result.
    """

    leaves: int = 1
    ranks: Ranks = SingleProcess()

    def gradient(self, batch: Batch | None = None) -> Metrics:
        if self.ranks.size == 1:
            return super().gradient(batch)
        return Problem.gradient(self, batch)  # Whoever began again alone would leave the others waiting.

    def _direct(self, batch: Batch, chunks: list[Tensor]) -> tuple[Evaluation, Metrics | None]:
        if self.leaves == 1:
            return super()._direct(batch, chunks)
        if self.couples is not Level.DECISION:
            return self._by_cotangent(batch, chunks, self.live(batch)), None
        leaves, total, results = self._split(batch), LeafGradients(self.optimiser), self._blank(batch)
        for leaf in self._mine(leaves):
            total.begin()
            store(results, super()._direct(batch, self._chunks(batch, leaf))[0], leaf)
            total.end()
        total.put(self.ranks)
        return self._shared(results, leaves), None

    def _by_cotangent(self, batch: Batch, chunks: list[Tensor], decisions: Tensor) -> Evaluation:
        if self.leaves == 1:
            return super()._by_cotangent(batch, chunks, decisions)
        leaves, total, results = self._split(batch), LeafGradients(self.optimiser), self._blank(batch)
        for leaf in self._mine(leaves):
            store(results, evaluate_detached(self.policy, batch, self.needs, leaf, reference=self.reference), leaf)
        values = self._shared(results, leaves)
        cotangents = self._cotangents(values, batch, decisions)
        for leaf in self._mine(leaves):
            total.begin()
            for chunk in self._chunks(batch, leaf):
                self._pull(batch, chunk, cotangents)
            total.end()
        total.put(self.ranks)
        return values

    def _split(self, batch: Batch) -> list[Tensor]:
        return leaves_of(batch, self.live(batch), self.leaves)

    def _chunks(self, batch: Batch, leaf: Tensor) -> list[Tensor]:
        return self.policy.chunks(batch, leaf) if len(leaf) else []

    def _mine(self, leaves: Sequence[Tensor]) -> Iterator[Tensor]:
        """This rank's leaves: as many, one after the other, as every other rank has."""
        share = len(leaves) // self.ranks.size
        return iter(leaves[share * self.ranks.rank : share * (self.ranks.rank + 1)])

    def _shared(self, results: dict[Quantity, Tensor], leaves: Sequence[Tensor]) -> Evaluation:
        """What all ranks found of their leaves."""
        if self.ranks.size == 1:
            return evaluation(results)
        return evaluation({quantity: self._joined(results[quantity], leaves) for quantity in sorted(results)})

    def _joined(self, mine: Tensor, leaves: Sequence[Tensor]) -> Tensor:
        """One quantity `[T]` or `[T, K]` as the ranks found it, each for its leaves."""
        share, count = len(leaves) // self.ranks.size, len(mine)
        # A rank whose leaves are all empty knows neither shape nor type of what others found.
        kind = torch.tensor([mine.numel() // max(count, 1), mine.dim(), int(mine.dtype == torch.float64)])
        width, dims, double = torch.stack(self.ranks.gathered(kind)).max(0).values.tolist()
        sent = mine.to(torch.float64).reshape(count, -1)
        shares = self.ranks.gathered(sent if sent.shape[1] == width else sent.new_zeros(count, width))
        joined = torch.zeros_like(shares[0])
        for rank, values in enumerate(shares):
            rows = torch.cat(list(leaves[share * rank : share * (rank + 1)]))
            joined[rows] = values[rows]
        return (joined if dims > 1 else joined.flatten()).to(torch.float64 if double else torch.float32)

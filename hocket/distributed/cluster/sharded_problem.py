"""Learning with weights in shares: `--shard true`. The bits are those of learners that hold everything.

The chunks of all leaves are dealt to the ranks in turn, a window of one per rank after the other. What a layer's
weights get in a chunk goes to the ranks that hold them as soon as it is known; each adds, of its shares, the chunks of
a leaf in order and the leaves in the binary tree of `hocket.distributed.cluster.leaves`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from hocket.core.batch import Batch, Level
from hocket.core.errors import HocketError
from hocket.distributed.cluster.leaves import LeafProblem, TreeSum
from hocket.distributed.cluster.shards import Meeting, ShardedWeight, Unit, as_bytes, bounds
from hocket.stages import Metrics, State
from hocket.types import Evaluation
from hocket.update.problem import Problem, store


class Piece(NamedTuple):
    """A chunk of a leaf, which is the leaf's only one or not."""

    leaf: int
    chunk: Tensor
    alone: bool


# ---------------------------------------------------------------- gradients


class ShareSum:
    """One rank's share of a weight's gradient: parts are added within a leaf, leaves in the tree."""

    def __init__(self, wide: torch.dtype, like: Tensor) -> None:
        self._wide, self._like = wide, like
        self._leaf, self._tree = 0, TreeSum()
        self._part: Tensor | None = None

    def add(self, leaf: int, part: Tensor) -> None:
        """The next part, which may be changed, of a leaf not before the last one's."""
        self._close(leaf)
        self._part = part if self._part is None else self._part.add_(part)

    def total(self, leaves: int) -> Tensor:
        """Over all leaves."""
        self._close(leaves)
        return self._tree.total.to(self._like.dtype)

    def _close(self, leaf: int) -> None:
        while self._leaf < leaf:
            part = torch.zeros_like(self._like) if self._part is None else self._part
            self._tree.add(part.detach().to(self._wide))
            self._part = None
            self._leaf += 1


class GradientSum:
    """This rank's shares of a gradient, from what all ranks give in windows of one piece each.

    Args:
        pieces: of all windows, in order. ranks: how many a window has. wide: what leaves are added in.
    """

    def __init__(self, pieces: Sequence[Piece], ranks: int, wide: torch.dtype) -> None:
        self._leaf = [piece.leaf for piece in pieces]
        self._ranks, self._wide, self._first = ranks, wide, 0
        self._sums: dict[int, ShareSum] = {}
        self._inbox: dict[int, dict[int, Mapping[int, Tensor]]] = {}
        self._units: dict[int, Unit] = {}
        self._next: dict[int, int] = {}

    def received(self, unit: Unit, giver: int, parts: Mapping[int, Tensor]) -> None:
        """Adds what a rank gives once those before it have given theirs; at the end of the window at the latest."""
        self._units[unit.number] = unit
        box = self._inbox.setdefault(unit.number, {})
        box[giver] = parts
        while (coming := self._next.get(unit.number, 0)) in box:
            self._add(unit, coming, box.pop(coming))
            self._next[unit.number] = coming + 1

    def advance(self) -> None:
        """Ends a window."""
        for number, box in self._inbox.items():
            for giver in sorted(box):
                self._add(self._units[number], giver, box[giver])
        self._inbox, self._next = {}, {}
        self._first += self._ranks

    def put(self, weights: Sequence[ShardedWeight], touched: set[int], leaves: int) -> None:
        """Puts the sums into the shares' `.grad`; None where no leaf had a gradient."""
        for held in weights:
            held.share.grad = None
            if id(held) in touched and held.share.numel():
                held.share.grad = self._sum(held).total(leaves)

    def _add(self, unit: Unit, giver: int, parts: Mapping[int, Tensor]) -> None:
        for place, part in parts.items():
            if part.numel():
                self._sum(unit.weights[place]).add(self._leaf[self._first + giver], part)

    def _sum(self, held: ShardedWeight) -> ShareSum:
        if id(held) not in self._sums:
            self._sums[id(held)] = ShareSum(self._wide, held.share)
        return self._sums[id(held)]


@dataclass
class ShardedProblem(LeafProblem):
    """A problem over weights in shares, by which an optimiser over these makes the step of one over the whole."""

    meeting: Meeting = field(kw_only=True)

    def gradient(self, batch: Batch | None = None) -> Metrics:
        metrics = super().gradient(batch)
        losses = self.ranks.gathered(torch.tensor([metrics["loss"]], dtype=torch.float64))
        wrong = next((rank for rank, loss in enumerate(losses) if not as_bytes(loss).equal(as_bytes(losses[0]))), None)
        if wrong is not None:
            raise HocketError(
                f"learner {wrong} has another loss than learner 0 for the same batch of {self.policy.name!r}; see "
                "`hocket doctor`, and go on from the last checkpoint with --resume"
            )
        return metrics

    def clip(self, limit: float | None) -> float:
        weights = [held for held in self._weights() if id(held) in self.meeting.touched]
        if not weights:
            return 0.0
        # In the order of torch's own norm, which takes one type of numbers after the other.
        by_type = _group_tensors_by_device_and_dtype([list(self._norms(weights))]).values()
        norms = [norm for (same,), _ in by_type for norm in same if norm is not None]
        total = torch.linalg.vector_norm(torch.stack(norms))
        shares = [held.share for held in weights if held.share.grad is not None]
        torch.nn.utils.clip_grads_with_norm_(shares, torch.inf if limit is None else limit, total)
        return float(total)

    def _direct(self, batch: Batch, chunks: list[Tensor]) -> tuple[Evaluation, Metrics | None]:
        if self.couples is not Level.DECISION:
            return self._by_cotangent(batch, chunks, self.live(batch)), None
        results, pieces = self._blank(batch), self._pieces(batch)

        def learn(piece: Piece) -> None:
            # Beside an empty chunk the terms are cut to what is in this one, as they are beside a leaf's others.
            parts = [piece.chunk] if piece.alone else [piece.chunk, piece.chunk[:0]]
            store(results, Problem._direct(self, batch, parts)[0], piece.chunk)

        self._sum(pieces, learn)
        return self._shared(results, self._dealt(pieces)), None

    def _by_cotangent(self, batch: Batch, chunks: list[Tensor], decisions: Tensor) -> Evaluation:
        results, pieces = self._blank(batch), self._pieces(batch)
        for piece in pieces[self.ranks.rank :: self.ranks.size]:
            with torch.no_grad():
                evaluated = self.policy.evaluate(batch, self.needs, piece.chunk, reference=self.reference)
            store(results, evaluated, piece.chunk)
        self.meeting.settle()
        values = self._shared(results, self._dealt(pieces))
        cotangents = self._cotangents(values, batch, decisions)
        self._sum(pieces, lambda piece: self._pull(batch, piece.chunk, cotangents))
        return values

    def _pieces(self, batch: Batch) -> list[Piece]:
        """The chunks of all leaves, in order."""
        split = [self._chunks(batch, leaf) for leaf in self._split(batch)]
        return [Piece(number, chunk, len(chunks) == 1) for number, chunks in enumerate(split) for chunk in chunks]

    def _dealt(self, pieces: Sequence[Piece]) -> list[Tensor]:
        """The decisions of each rank's pieces."""
        none = torch.zeros(0, dtype=torch.long)
        size = self.ranks.size
        return [torch.cat([none, *(piece.chunk for piece in pieces[rank::size])]) for rank in range(size)]

    def _sum(self, pieces: Sequence[Piece], learn: Callable[[Piece], None]) -> None:
        """Sums what the weights get of all pieces, of which each rank computes one in a window."""
        rank, size, weights = self.ranks.rank, self.ranks.size, self._weights()
        wide = torch.float64 if any(held.share.dtype == torch.float64 for held in weights) else torch.float32
        sums = GradientSum(pieces, size, wide)
        self.meeting.touched, self.meeting.sums = set(), sums
        try:
            for first in range(0, len(pieces), size):
                if first + rank < len(pieces):
                    learn(pieces[first + rank])
                self.meeting.settle()
                sums.advance()
        finally:
            self.meeting.sums = None
        sums.put(weights, self.meeting.touched, self.leaves)

    def _weights(self) -> list[ShardedWeight]:
        """What the optimiser changes, in its order."""
        by_share = {id(held.share): held for held in self.meeting.held.values()}
        return [by_share[id(share)] for group in self.optimiser.param_groups for share in group["params"]]

    def _norms(self, weights: Sequence[ShardedWeight]) -> list[Tensor]:
        """The norms of the whole gradients, of which each rank puts one together at a time."""
        rank, size, norms = self.ranks.rank, self.ranks.size, list[Tensor]()
        for start in range(0, len(weights), size):
            window = weights[start : start + size]
            wanted = [*window, *[None] * (size - len(window))]
            sent = [as_bytes(_gradient(held)) for held in wanted]
            mine = wanted[rank]
            sizes = [0 if mine is None else mine.size(giver) for giver in range(size)]
            parts = self.meeting.ranks.swapped(sent, sizes)
            norm = torch.zeros((), dtype=torch.float64)
            if mine is not None:
                gradient = torch.cat(parts).view(mine.weight.dtype).reshape(mine.weight.shape)
                norm = torch.linalg.vector_norm(gradient).double().cpu()
            gathered = self.ranks.gathered(norm[None])
            norms += [norm[0].to(held.share) for norm, held in zip(gathered, window, strict=False)]
        return norms


def _gradient(held: ShardedWeight | None) -> Tensor:
    if held is None:
        return torch.zeros(0)
    return torch.zeros_like(held.share) if held.share.grad is None else held.share.grad


# ---------------------------------------------------------------- optimisers


@dataclass(frozen=True)
class MomentsQuestion:
    """Asks another rank for the state of the optimiser of a policy's shares."""

    policy: str


def state_share(state: State, weights: Sequence[Tensor], rank: int, size: int) -> State:
    """A rank's share of an optimiser's state; none of weights of which it has nothing."""
    shares = {}
    for place, values in state["state"].items():
        ends = bounds(weights[place].numel(), size)
        first, last = ends[rank], ends[rank + 1]
        if first < last:
            shares[place] = {
                name: value
                if name == "step" or not isinstance(value, Tensor)
                else value.reshape(-1)[first:last].clone()
                for name, value in values.items()
            }
    return {**state, "state": shares}


def whole_state(optimiser: torch.optim.Optimizer, meeting: Meeting, others: Sequence[State]) -> State:
    """The state of an optimiser as if it held the whole, from that of its shares and those of the `others`."""
    ours = optimiser.state_dict()
    by_share = {id(held.share): held for held in meeting.held.values()}
    shares = [share for group in optimiser.param_groups for share in group["params"]]
    joined: dict[int, Any] = {}
    for place, values in ours["state"].items():
        shape = by_share[id(shares[place])].weight.shape
        known = [values, *(state["state"][place] for state in others if place in state["state"])]
        joined[place] = {name: _joined(name, [one_share[name] for one_share in known], shape) for name in values}
    return {**ours, "state": joined}


def _joined(name: str, values: Sequence[Any], shape: torch.Size) -> Any:
    if name == "step" or not isinstance(values[0], Tensor):
        return values[0]
    return torch.cat([value.to(values[0]) for value in values]).reshape(shape)

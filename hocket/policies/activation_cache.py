"""What the sampler computed, kept for the learner: the same function at the same weights need not be computed twice.

Sampler and learner compute a token by the same code, so what a forward pass of the learner would store for its backward
pass stood in the sampler's memory, bit for bit. An activation cache keeps it: of every layer the normalised states, the
products that something nonlinear follows, and what attention mixed, with its log-sums. The learner then begins with the
backward pass, a third of the arithmetic less. It gets the numbers that it would have computed itself, so whether there
is an activation cache shows in time and memory only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies import kernels
from hocket.policies.family import LayerSteps, Map
from hocket.policies.form_reading import form_of
from hocket.policies.lowrank import JoinedLinear
from hocket.policies.prefix_tree import PrefixTree
from hocket.policies.sequences import Row

Places = NDArray[np.int64]
Kept = tuple[Tensor, ...]
"""What one step of a pass leaves behind, each `[M, ..]`."""

WORTH = 10_000_000
"""Weights of layers from which an activation cache pays: below, writing it takes as long as computing again."""

MAX_BYTES = 2 * 2**30
"""A longer activation cache is thrown away; the learner then computes for itself."""


def worth(model: Any) -> bool:
    """Whether an activation cache saves time for `model`, of known form."""
    weights: int = sum(parameter.numel() for parameter in model.model.layers.parameters())
    return weights >= WORTH


class Recording(LayerSteps):
    """Computes a pass and keeps what a backward pass needs."""

    sums = True
    fused = False

    def __init__(self) -> None:
        self.kept: list[Kept] = []

    def norm(self, x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        sums, normal, inverse = kernels.add_norm(x, delta, epsilon, dtype)
        self.kept.append((normal, inverse))
        return sums, normal

    def product(self, linear: Map, x: Tensor) -> Tensor:
        out = linear(x)
        self.kept.append((out,))
        return out

    def attended(self, mixed: Tensor, sums: Tensor) -> None:
        self.kept.append((mixed, sums))


class ActivationCache:
    """Everything recorded since the weights became what they are.

    Attributes:
        weights: tells which weights these are. full: whether it grew too long and nothing is kept any more.

    Args:
        layers: of the model. most: bytes, `MAX_BYTES` when None.
    """

    def __init__(self, layers: int, weights: tuple[int, ...], most: int | None = None) -> None:
        self.weights = weights
        self.full = False
        self._most = MAX_BYTES if most is None else most
        # Behind the last layer's attention only those rows are computed whose states are wanted.
        self._late = 5 * (layers - 1) + 3
        self._chunks: list[list[Kept]] = []
        self._early_rows = self._late_rows = self._bytes = 0
        self._early_starts: list[int] = []
        self._late_starts: list[int] = []
        self._late_row = np.zeros(0, np.int64)
        self._traces: dict[bytes, Places] = {}

    def recording(self) -> Recording:
        """For one pass of the sampler."""
        return Recording()

    def add(self, recording: LayerSteps, wanted: Tensor | None) -> int:
        """Appends a pass; the number of its first token, -1 when the activation cache is full."""
        assert isinstance(recording, Recording)
        rows = len(recording.kept[0][0])
        self._bytes += sum(part.nbytes for layer in recording.kept for part in layer)
        if self.full or self._bytes > self._most:
            self.full = True
            self._chunks, self._traces = [], {}
            return -1
        if not self._chunks:
            self._chunks = [[] for _ in recording.kept]
        for chunks, layer in zip(self._chunks, recording.kept, strict=True):
            chunks.append(layer)
        self._early_starts.append(self._early_rows)
        self._late_starts.append(self._late_rows)
        late = np.full(rows, -1, np.int64)
        chosen = np.arange(rows) if wanted is None else wanted.numpy()
        late[chosen] = self._late_rows + np.arange(len(chosen))
        first, self._early_rows = self._early_rows, self._early_rows + rows
        self._late_rows += len(chosen)
        if self._early_rows > len(self._late_row):
            self._late_row = np.resize(self._late_row, 2 * self._early_rows)
        self._late_row[first : self._early_rows] = late
        return first

    def remember(self, tokens: Sequence[int], trace: Places) -> None:
        """Says where each of a sequence's tokens is recorded, -1 where it is not."""
        if not self.full and (trace >= 0).all():
            self._traces[np.asarray(tokens, np.int64).tobytes()] = trace

    def find(self, rows: Sequence[Row], tree: PrefixTree) -> ReplaySteps | None:
        """What was recorded of a tree's tokens; None unless all of them were."""
        traces = [self._traces.get(row.tokens.tobytes()) for row in rows]
        place = np.zeros(len(tree.token), np.int64)
        for trace, path in zip(traces, tree.paths, strict=True):
            if trace is None:
                return None
            place[path] = trace
        late = self._late_row[place[np.unique(tree.place)]]
        return None if (late < 0).any() else ReplaySteps(self._rows(place, late))

    def _rows(self, early: Places, late: Places) -> Iterator[Kept]:
        first, last = _located(early, self._early_starts), _located(late, self._late_starts)
        for number, chunks in enumerate(self._chunks):
            where = first if number < self._late else last
            yield tuple(kernels.gather(parts, *where) for parts in zip(*chunks, strict=True))


def activation_cache_for(model: Any, weights: tuple[int, ...]) -> ActivationCache | None:
    """An activation cache for a supported model with these weights; None where it cannot be or does not pay."""
    form = form_of(model)
    fits = model.device.type == "cpu" and model.dtype is torch.float32 and form is not None and form.usual
    if form is not None and fits and worth(model) and kernels.available(form.shapes[0][2]):
        return ActivationCache(len(form.layers), weights)
    return None


def _located(rows: Places, starts: list[int]) -> tuple[Tensor, Tensor]:
    """The chunk of each row, and its place there."""
    begins = np.array(starts)
    chunk = np.searchsorted(begins, rows, side="right") - 1
    return torch.from_numpy(chunk.astype(np.int32)), torch.from_numpy((rows - begins[chunk]).astype(np.int32))


class ReplaySteps(LayerSteps):
    """A pass whose results are known: nothing is computed but what is cheaper than keeping it.

    The residual stream itself, which no backward pass reads, is left out: zeros without memory stand for it.
    """

    def __init__(self, kept: Iterator[Kept]) -> None:
        self._kept = kept

    def norm(self, x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        normed: tuple[Tensor, Tensor] = _KnownNorm.apply(x, delta, *self.take())  # type: ignore[no-untyped-call]
        return normed

    def product(self, linear: Map, x: Tensor) -> Tensor:
        assert isinstance(linear, JoinedLinear)
        return linear.known(x, *self.take())

    def output(self, linear: Map, x: Tensor) -> Tensor:
        assert isinstance(linear, JoinedLinear)
        return linear.known(x, x.new_zeros(()).expand(len(x), linear.width))

    def take(self) -> Kept:
        """What the next step left behind."""
        return next(self._kept)

    def attention(self) -> tuple[Tensor, Tensor]:
        """What the next attention mixed, and log-sums of its scores."""
        mixed, sums = self.take()
        return mixed, sums


class _KnownNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delta: Tensor | None, normal: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(normal, inverse)
        ctx.delta = delta is not None
        ctx.set_materialize_grads(False)
        return x.new_zeros(()).expand(x.shape), normal.view_as(normal)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, more: Tensor | None, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normal, inverse = ctx.saved_tensors
        return *kernels.add_norm_backward(gradient, normal, inverse, more, delta=ctx.delta), None, None

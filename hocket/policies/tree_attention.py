"""Attention over a prefix tree: each token sees its ancestors, which are computed once however many share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies.kernels import ScoreBounds
from hocket.policies.operations import Functions, common_column
from hocket.policies.prefix_tree import TokenRun
from hocket.policies.shaping import Angles, Tables

if TYPE_CHECKING:
    from hocket.policies.family import Layer


class Bags(NamedTuple):
    """Which rows of a buffer are summed into each row of a result: `order`, cut at `starts` (one per result row)."""

    order: Tensor
    starts: Tensor

    @staticmethod
    def of(rows: NDArray[np.int64], used: NDArray[np.bool_], size: int, device: torch.device) -> Bags:
        """Buffer row i belongs to result row `rows[i]` where `used[i]`."""
        places = np.flatnonzero(used)
        order = places[np.argsort(rows[places], kind="stable")]
        counts = np.bincount(rows[places], minlength=size)
        starts = np.cumsum(counts) - counts
        return Bags(torch.from_numpy(order).to(device), torch.from_numpy(starts).to(device))

    def sums(self, buffer: Tensor) -> Tensor:
        """`[size, D]`."""
        return F.embedding_bag(self.order, buffer, self.starts, mode="sum")


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        weight: Tensor | None,
        cosine: Tensor,
        sine: Tensor,
        depth: Tensor,
        sinks: Tensor | None,
        epsilon: float,
        scale: float,
        shared: int,
        functions: Functions,
        paths: Any,
        mixed: Tensor | None,
        sums: Tensor | None,
        bounds: ScoreBounds,
    ) -> Tensor:
        turned, inverse = functions.apply_rope(qkv, weight, cosine, sine, depth, epsilon, shared)
        if mixed is None or sums is None:
            mixed, sums = functions.tree_attention(turned, qkv, paths, scale, cosine.shape[1], shared, bounds)
        else:
            mixed = mixed.view_as(mixed)
        ctx.save_for_backward(qkv, weight, cosine, sine, depth, turned, inverse, mixed, sums, sinks)
        ctx.functions, ctx.scale, ctx.shared, ctx.paths, ctx.bounds = functions, scale, shared, paths, bounds
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        qkv, weight, cosine, sine, depth, turned, inverse, mixed, sums, sinks = ctx.saved_tensors
        functions: Functions = ctx.functions
        for_turned = functions.tree_attention_backward(
            turned, qkv, mixed, gradient, sums, ctx.paths, ctx.scale, cosine.shape[1], ctx.shared, ctx.bounds
        )
        for_qkv, for_weight = functions.apply_rope_backward(
            for_turned, qkv, weight, cosine, sine, depth, inverse, ctx.shared
        )
        for_sinks = None
        if sinks is not None:
            along = (gradient * mixed).to(sums.dtype).view(*sums.shape, -1).sum(-1)
            for_sinks = -(torch.exp(sinks - sums) * along).sum(0)
        return for_qkv, for_weight, None, None, None, for_sinks, *(None,) * 8


class TreeAttention:
    """Causal attention along a tree of M tokens, for every layer of a model.

    Args:
        nodes: of the tree. depth: of each token `[M]` int64.
        tables: of cosine, and of sine with the sign of the rotated half, `[P, D]`, by name.
        shapes: of the layers' attention: query heads, key and value heads, numbers of each.
        like: a tensor of the kind activations are.
    """

    def __init__(
        self,
        nodes: Sequence[TokenRun],
        depth: Tensor,
        tables: Tables,
        shapes: Sequence[tuple[int, int, int]],
        like: Tensor,
    ) -> None:
        self._depth, self._tables = depth, tables
        column = common_column(like.device, like.dtype, shapes)
        self._functions, self._paths = column.functions(), column.paths(nodes, like.device)
        self._places = depth.to(torch.int32)
        self._angles: dict[str | None, Angles] = {}

    def turn(self, table: str | None) -> Angles:
        """The tokens' own angles `[M, D]`."""
        cosine, sine = self._tables[table]
        return cosine[self._depth], sine[self._depth]

    def __call__(self, qkv: Tensor, layer: Layer, known: tuple[Tensor | None, Tensor | None] = (None, None)) -> Tensor:
        """Outputs `[M, H * D]`.

        Args:
            qkv: queries, keys and values before norm and rotation, `[M, (H + 2 S) * D]`.
            layer: whose scale, norms of queries and keys, table of angles and bounds are used.
            known: outputs and log-sums of scores `[M, H]`, if they are.
        """
        if layer.shaping is not None:
            qkv = layer.shaping(qkv, lambda: self.turn(layer.late))
        if layer.rotary not in self._angles:
            cosine, sine = self._tables[layer.rotary]
            self._angles[layer.rotary] = cosine.contiguous(), sine.contiguous()
        bounds = layer.bounds
        shape = layer.turn_epsilon, layer.scale, layer.shared, self._functions, self._paths
        angles = (*self._angles[layer.rotary], self._places)
        out: Tensor = _Attend.apply(qkv, layer.turn, *angles, bounds.sinks, *shape, *known, bounds)  # type: ignore[no-untyped-call]
        return out

"""Attention over a prefix tree: each token sees its ancestors, which are computed once however many share them.

On processors `hocket.policies.kernels` walk the tree; elsewhere blocks of nodes are gathered for batched products.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies import kernels
from hocket.policies.fused_operations import by_kernels, normalise_backward, scale_down
from hocket.policies.kernels import ScoreBounds, TreePaths
from hocket.policies.prefix_tree import TokenRun, attention_blocks
from hocket.policies.shaping import Angles, Tables

if TYPE_CHECKING:
    from hocket.policies.family import Layer


class Shape(NamedTuple):
    """One block of attention: nodes B, queries Q and keys K of the longest."""

    nodes: int
    queries: int
    keys: int


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


@dataclass(frozen=True)
class AttentionPlan:
    """Where the attention of a tree of M tokens finds its queries, keys and values; serves every layer.

    Queries and keys are rows of `[M * (H + S), D]` (H query heads, then S shared ones), values of `[M * (H + 2 S), D]`,
    outputs of `[M * H, D]`; D numbers each. Blocks hold `[B, S, Q * H / S, D]` queries and `[B, S, K, D]` keys.

    Attributes:
        heads, shared: H and S. shapes: of the blocks.
        qk_rows: queries of all blocks, then keys of all blocks. v_rows: values of all blocks.
        queries: how many of `qk_rows` are queries.
        masks: per block, what is added to scores, `[B * S, Q * H / S, K]`, by the window of a layer.
        out_rows: for each output row its place among the queries. back_rows: for each query its output row.
        vacant: queries that only fill a block.
        qk_bags, v_bags: sums of the gradients of gathered rows.
    """

    heads: int
    shared: int
    shapes: list[Shape]
    qk_rows: Tensor
    v_rows: Tensor
    queries: int
    masks: Mapping[int, list[Tensor]]
    out_rows: Tensor
    back_rows: Tensor
    vacant: Tensor
    qk_bags: Bags
    v_bags: Bags

    @staticmethod
    def of(
        nodes: list[TokenRun], heads: int, shared: int, like: Tensor, windows: Iterable[int] = (0,)
    ) -> AttentionPlan:
        """The plan of a tree's nodes, with masks of the kind of `like` for layers of these windows."""
        total, device, repeat = sum(node.own for node in nodes), like.device, heads // shared
        head = np.arange(heads).reshape(shared, 1, repeat)
        key_head = np.arange(shared)[:, None]
        q_rows, k_rows, v_rows, o_rows, q_used, k_used = [], [], [], [], [], []
        shapes: list[Shape] = []
        masks: dict[int, list[Tensor]] = {window: [] for window in windows}
        for block in attention_blocks(nodes):
            query, key, seen = _padded([nodes[number] for number in block])
            shape = Shape(query.shape[0], query.shape[1], key.shape[1])
            q, k = query[:, None, :, None], key[:, None, :]
            q_used.append(np.broadcast_to(q >= 0, (shape.nodes, shared, shape.queries, repeat)).ravel())
            k_used.append(np.broadcast_to(k >= 0, (shape.nodes, shared, shape.keys)).ravel())
            q, k = q.clip(0), k.clip(0)
            q_rows.append((q * (heads + shared) + head).ravel())
            o_rows.append((q * heads + head).ravel())
            k_rows.append((k * (heads + shared) + heads + key_head).ravel())
            v_rows.append((k * (heads + 2 * shared) + heads + shared + key_head).ravel())
            shapes.append(shape)
            for window, blocks in masks.items():
                blocks.append(_mask(seen, shape, shared, repeat, like, window))
        used_q, used_k = np.concatenate(q_used), np.concatenate(k_used)
        qk, v = np.concatenate([*q_rows, *k_rows]), np.concatenate(v_rows)
        back = np.concatenate(o_rows)
        out = np.zeros(total * heads, np.int64)
        out[back[used_q]] = np.flatnonzero(used_q)
        # Values stand in the joint matrix of queries, keys and values; their gradients are summed in one of their own.
        token, own = np.divmod(v, heads + 2 * shared)
        v_only = token * shared + own - heads - shared
        return AttentionPlan(
            heads=heads,
            shared=shared,
            shapes=shapes,
            qk_rows=torch.from_numpy(qk).to(device),
            v_rows=torch.from_numpy(v).to(device),
            queries=len(back),
            masks=masks,
            out_rows=torch.from_numpy(out).to(device),
            back_rows=torch.from_numpy(back).to(device),
            vacant=torch.from_numpy(np.flatnonzero(~used_q)).to(device),
            qk_bags=Bags.of(qk, np.concatenate([used_q, used_k]), total * (heads + shared), device),
            v_bags=Bags.of(v_only, used_k, total * shared, device),
        )

    def blocks(self, query_buffer: Tensor, key_buffer: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views of gathered queries and keys (or values) by block: `[B * S, Q * H / S, D]`, `[B * S, K, D]`."""
        repeat, size = self.heads // self.shared, query_buffer.shape[-1]
        found = []
        start = begin = 0
        for nodes, queries, keys in self.shapes:
            rows, columns = nodes * self.heads * queries, nodes * self.shared * keys
            q = query_buffer[start : start + rows].view(nodes * self.shared, queries * repeat, size)
            k = key_buffer[begin : begin + columns].view(nodes * self.shared, keys, size)
            found.append((q, k))
            start, begin = start + rows, begin + columns
        return found

    def beside(self, sinks: Tensor, shape: Shape) -> Tensor:
        """One more column for the scores of a block: each query's sink, `[B * S, Q * H / S, 1]`."""
        rows = sinks.view(1, self.shared, 1, -1).expand(shape.nodes, -1, shape.queries, -1)
        return rows.reshape(shape.nodes * self.shared, -1, 1)

    def by_head(self, column: Tensor, shape: Shape) -> Tensor:
        """Such a column's gradient, summed `[H]`."""
        return column.view(shape.nodes, self.shared, shape.queries, -1).sum((0, 2)).flatten()


def _padded(nodes: list[TokenRun]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Places of queries `[B, Q]` and keys `[B, K]`, -1 where vacant, and the last key each query sees `[B, Q]`."""
    query = np.full((len(nodes), max(node.own for node in nodes)), -1, np.int64)
    key = np.full((len(nodes), max(len(node.path) for node in nodes)), -1, np.int64)
    seen = np.zeros(query.shape, np.int64)
    for row, (path, own) in enumerate(nodes):
        query[row, :own] = path[len(path) - own :]
        key[row, : len(path)] = path
        seen[row, :own] = np.arange(len(path) - own, len(path))
    return query, key, seen


def _mask(seen: NDArray[np.int64], shape: Shape, shared: int, repeat: int, like: Tensor, window: int) -> Tensor:
    last = torch.from_numpy(seen).to(like.device)[:, None, :, None, None]
    place = torch.arange(shape.keys, device=like.device)
    hidden = (place > last) | (place <= last - window) if window else place > last
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, -torch.inf)
    full = mask.expand(shape.nodes, shared, shape.queries, repeat, shape.keys)
    return full.reshape(shape.nodes * shared, shape.queries * repeat, shape.keys)


def _swapped(x: Tensor) -> Tensor:
    """The two halves of the last axis exchanged."""
    half = x.shape[-1] // 2
    return torch.cat((x[..., half:], x[..., :half]), -1)


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        weight: Tensor | None,
        cosine: Tensor,
        sine: Tensor,
        sinks: Tensor | None,
        epsilon: float,
        scale: float,
        plan: AttentionPlan,
        bounds: ScoreBounds,
    ) -> Tensor:
        total, size, turning = len(qkv), cosine.shape[-1], plan.heads + plan.shared
        parts = qkv.view(total, turning + plan.shared, size)
        given = parts[:, :turning]
        normal = inverse = None
        if weight is not None:
            inverse = scale_down(given, epsilon)
            normal = given * inverse
            given = normal * weight
        turned = torch.addcmul(given * cosine, _swapped(given), sine)
        gathered = turned.view(-1, size).index_select(0, plan.qk_rows)
        values = qkv.view(-1, size).index_select(0, plan.v_rows)
        mixed = torch.empty_like(gathered[: plan.queries])
        chances, capped = [], []
        pairs = plan.blocks(gathered[: plan.queries], gathered[plan.queries :])
        blocks = zip(pairs, plan.blocks(mixed, values), plan.masks[bounds.window], plan.shapes, strict=True)
        for (q, k), (out, v), mask, shape in blocks:
            if bounds.cap:
                capped.append(torch.bmm(q, k.transpose(1, 2)).mul_(scale / bounds.cap).tanh_())
                scores = capped[-1] * bounds.cap + mask
            else:
                scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale)
            if sinks is not None:
                scores = torch.cat((scores, plan.beside(sinks, shape)), -1)
            chances.append(torch.softmax(scores, -1))
            torch.bmm(chances[-1][..., : shape.keys], v, out=out)
        ctx.save_for_backward(weight, cosine, sine, normal, inverse, gathered, values, *chances, *capped)
        ctx.scale, ctx.plan, ctx.bounds, ctx.sinks = scale, plan, bounds, sinks is not None
        return mixed.index_select(0, plan.out_rows).view(total, plan.heads * size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, cosine, sine, normal, inverse, gathered, values, *kept = ctx.saved_tensors
        plan: AttentionPlan = ctx.plan
        bounds: ScoreBounds = ctx.bounds
        chances, capped = kept[: len(plan.shapes)], kept[len(plan.shapes) :]
        for_sinks = gradient.new_zeros(plan.heads) if ctx.sinks else None
        total, size, turning = len(gradient), cosine.shape[-1], plan.heads + plan.shared
        back = gradient.reshape(-1, size).index_select(0, plan.back_rows).index_fill_(0, plan.vacant, 0.0)
        for_qk, for_v = torch.empty_like(gathered), torch.empty_like(values)
        pairs = plan.blocks(gathered[: plan.queries], gathered[plan.queries :])
        results = plan.blocks(for_qk[: plan.queries], for_qk[plan.queries :])
        outputs, sums = plan.blocks(back, values), plan.blocks(back, for_v)
        for number, ((q, k), (for_q, for_k), (out, v), (_, into), chance) in enumerate(
            zip(pairs, results, outputs, sums, chances, strict=True)
        ):
            torch.bmm(chance[..., : k.shape[1]].transpose(1, 2), out, out=into)
            slopes = torch.bmm(out, v.transpose(1, 2))
            if for_sinks is not None:
                slopes = F.pad(slopes, (0, 1))
            scores = torch._softmax_backward_data(slopes, chance, -1, chance.dtype)
            if for_sinks is not None:
                for_sinks += plan.by_head(scores[..., -1], plan.shapes[number])
                scores = scores[..., :-1]
            if bounds.cap:
                scores = scores * (1 - capped[number].square())
            scores.mul_(ctx.scale)
            torch.bmm(scores, k, out=for_q)
            torch.bmm(scores.transpose(1, 2), q, out=for_k)
        turned = plan.qk_bags.sums(for_qk).view(total, turning, size)
        given = _swapped(turned * sine).addcmul_(turned, cosine)
        found = torch.empty(total, turning + plan.shared, size, dtype=gradient.dtype, device=gradient.device)
        found[:, turning:] = plan.v_bags.sums(for_v).view(total, plan.shared, size)
        for_weight = None
        if weight is not None:
            for_weight = (given * normal).sum(0)
            given = normalise_backward(given.mul_(weight), normal, inverse)
        found[:, :turning] = given
        return found.view(total, -1), for_weight, None, None, for_sinks, *(None,) * 4


def paths_of(nodes: list[TokenRun]) -> TreePaths:
    """The nodes' paths as pieces of consecutive tokens."""
    own = np.array([node.own for node in nodes], np.int32)
    piece, begin, length = [0], [], []
    for node in nodes:
        cuts = np.flatnonzero(np.diff(node.path) != 1) + 1
        first = np.concatenate([[0], cuts])
        begin.append(node.path[first])
        length.append(np.diff(np.append(first, len(node.path))))
        piece.append(piece[-1] + len(first))
    found = (np.cumsum(own) - own, own, piece, np.concatenate(begin), np.concatenate(length))
    return TreePaths(*(torch.from_numpy(np.asarray(one, np.int32)) for one in found))


class _AttendByKernels(Function):
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
        paths: TreePaths,
        mixed: Tensor | None,
        sums: Tensor | None,
        bounds: ScoreBounds,
    ) -> Tensor:
        turned, inverse = kernels.apply_rope(qkv, weight, cosine, sine, depth, epsilon, shared)
        if mixed is None or sums is None:
            mixed, sums = kernels.tree_attention(turned, qkv, paths, scale, cosine.shape[1], shared, bounds)
        else:
            mixed = mixed.view_as(mixed)
        ctx.save_for_backward(qkv, weight, cosine, sine, depth, turned, inverse, mixed, sums, sinks)
        ctx.scale, ctx.shared, ctx.paths, ctx.bounds = scale, shared, paths, bounds
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        qkv, weight, cosine, sine, depth, turned, inverse, mixed, sums, sinks = ctx.saved_tensors
        found = kernels.tree_attention_backward(
            turned, qkv, mixed, gradient, sums, ctx.paths, ctx.scale, cosine.shape[1], ctx.shared, ctx.bounds
        )
        for_qkv, for_weight = kernels.apply_rope_backward(found, qkv, weight, cosine, sine, depth, inverse, ctx.shared)
        for_sinks = None
        if sinks is not None:
            along = (gradient * mixed).float().view(*sums.shape, -1).sum(-1)
            for_sinks = -(torch.exp(sinks - sums) * along).sum(0)
        return for_qkv, for_weight, None, None, None, for_sinks, *(None,) * 7


class TreeAttention:
    """Causal attention along a tree of M tokens, for every layer of a model.

    Args:
        nodes: of the tree. depth: of each token `[M]` int64.
        tables: of cosine, and of sine with the sign of the rotated half, `[P, D]`, by name.
        heads, shared: H query heads, S key and value heads. like: a tensor of the kind activations are.
        windows: of the layers.
    """

    def __init__(
        self,
        nodes: list[TokenRun],
        depth: Tensor,
        tables: Tables,
        heads: int,
        shared: int,
        like: Tensor,
        windows: Iterable[int] = (0,),
    ) -> None:
        self._shared, self._depth, self._tables = shared, depth, tables
        self._plan: AttentionPlan | None = None
        size = next(iter(tables.values()))[0].shape[1]
        self._angles: dict[str | None, Angles] = {}
        if by_kernels(like) and kernels.available(size):
            self._places = depth.to(torch.int32)
            self._paths = paths_of(nodes)
        else:
            wide = like if like.dtype is torch.float64 else like.float()
            self._plan = AttentionPlan.of(nodes, heads, shared, wide, windows)

    @property
    def by_kernels(self) -> bool:
        """Whether the kernels compute it."""
        return self._plan is None

    def turn(self, table: str | None) -> Angles:
        """The tokens' own angles `[M, D]`."""
        cosine, sine = self._tables[table]
        return cosine[self._depth], sine[self._depth]

    def __call__(self, qkv: Tensor, layer: Layer, known: tuple[Tensor | None, Tensor | None] = (None, None)) -> Tensor:
        """Outputs `[M, H * D]`.

        Args:
            qkv: queries, keys and values before norm and rotation, `[M, (H + 2 S) * D]`.
            layer: whose scale, norms of queries and keys, table of angles and bounds are used.
            known: outputs and log-sums of scores `[M, H]`, if they are; for the kernels only.
        """
        out: Tensor
        if layer.shaping is not None:
            qkv = layer.shaping(qkv, lambda: self.turn(layer.late))
        if layer.rotary not in self._angles:
            self._angles[layer.rotary] = self._ready(layer.rotary)
        weight, angles, bounds = layer.turn, self._angles[layer.rotary], layer.bounds
        shape = layer.turn_epsilon, layer.scale
        if self._plan is None:
            out = _AttendByKernels.apply(  # type: ignore[no-untyped-call]
                qkv, weight, *angles, self._places, bounds.sinks, *shape, self._shared, self._paths, *known, bounds
            )
            return out
        wide = qkv if qkv.dtype is torch.float64 else qkv.float()
        out = _Attend.apply(wide, weight, *angles, bounds.sinks, *shape, self._plan, bounds)  # type: ignore[no-untyped-call]
        return out.to(qkv.dtype)

    def _ready(self, table: str | None) -> Angles:
        """A table as kernels read it, or the tokens' own angles."""
        if self._plan is None:
            cosine, sine = self._tables[table]
            return cosine.contiguous(), sine.contiguous()
        cosine, sine = self.turn(table)
        return cosine[:, None], sine[:, None]

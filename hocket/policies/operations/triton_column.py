"""Operations by Triton kernels, on CUDA and ROCm devices; signatures as in `hocket.policies.kernels`.

With `TRITON_INTERPRET=1` in the environment before Triton is imported they run on the processor, slowly, as a check.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from hocket.policies.kernels import PAGE, UNBOUNDED, Opening, ScoreBounds
from hocket.policies.operations import triton_kernels as kernels
from hocket.policies.operations.flat_tree import FlatTree

RECORDABLE = True
ROWS = 64
"""Rows of a tile of attention: the queries of one key head's group."""
KEYS = 64
"""Keys of a tile; half as many where a key takes more than `_LONG` bytes."""
_LONG = 512
PROGRAMS = 1024
"""Into so many equal parts the pass over keys is split at most, so that a long shared prefix keeps none waiting."""
LEAST_PART = 2048
"""Queries that one program adds at least into the gradient of a tile of keys, if there are so many."""
_COLUMNS = 1024
TURNED = 8192
"""Tokens whose shares in the gradient of a norm's weight are held at once."""

if os.environ.get("TRITON_INTERPRET") == "1":
    from hocket.policies.operations import interpreter

    interpreter.correct()


@dataclass(frozen=True)
class KeyItems:
    """The parts of a pass over tiles of keys, each of which adds a stretch of queries into one tile's gradient.

    Attributes:
        bounds: first key, first query and last query of each part, int32.
        ranks: parts by their rank among those of one tile: the tiles, and the parts; of the first all tiles.
    """

    bounds: tuple[Tensor, ...]
    ranks: list[tuple[Tensor, Tensor]]

    @staticmethod
    def of(tree: FlatTree, keys: int) -> KeyItems:
        """The parts for tiles of `keys` keys."""
        device, end = tree.end.device, tree.end.cpu().numpy()
        first = np.arange(0, len(end), keys)
        last = np.maximum.reduceat(end, first)
        most = max(LEAST_PART, int((last - first).sum()) // PROGRAMS)
        rows = [
            (tile, part, min(part + most, stop))
            for tile, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True))
            for part in range(start, stop, most)
        ]
        tile, start, stop = np.array(rows, np.int64).T
        return KeyItems(tuple(_ints(column, device) for column in (tile * keys, start, stop)), _ranks(tile, device))


@dataclass(frozen=True)
class TritonTree:
    """A tree as kernels read it.

    Attributes:
        path: the flat places of every node's path, one after another. end, depth: see `FlatTree`. All int32.
        first, count, start, place: of each block of queries of one node: first flat token, number of tokens, where its
            node's path begins in `path`, and the first token's place on it; by the number of tokens that a block has.
    """

    tree: FlatTree
    path: Tensor
    end: Tensor
    depth: Tensor
    _blocks: dict[int, tuple[Tensor, ...]]
    _items: dict[int, KeyItems]

    @staticmethod
    def of(tree: FlatTree) -> TritonTree:
        """The same tree."""
        device = tree.end.device
        return TritonTree(
            tree,
            torch.from_numpy(np.concatenate([node.path for node in tree.nodes]).astype(np.int32)).to(device),
            tree.end.to(torch.int32),
            tree.depth.to(torch.int32),
            {},
            {},
        )

    def blocks(self, queries: int) -> tuple[Tensor, ...]:
        """`first`, `count`, `start`, `place` of blocks of up to so many tokens."""
        if queries not in self._blocks:
            nodes = self.tree.nodes
            begins = np.cumsum([0, *(len(node.path) for node in nodes[:-1])])
            rows = [
                (start + part, min(queries, node.own - part), begin, len(node.path) - node.own + part)
                for node, start, begin in zip(nodes, self.tree.start.tolist(), begins.tolist(), strict=True)
                for part in range(0, node.own, queries)
            ]
            # The longest first: they take longest.
            rows.sort(key=lambda row: -row[3])
            columns = np.array(rows, np.int64).T
            self._blocks[queries] = tuple(_ints(column, self.end.device) for column in columns)
        return self._blocks[queries]

    def items(self, keys: int) -> KeyItems:
        """The pass over keys in tiles of so many."""
        if keys not in self._items:
            self._items[keys] = KeyItems.of(self.tree, keys)
        return self._items[keys]


def _ints(values: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values).astype(np.int32)).to(device)


def _ranks(tile: NDArray[np.int64], device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """See `KeyItems.ranks`; the tiles of items are in rising order."""
    _, first, counts = np.unique(tile, return_index=True, return_counts=True)
    ranks = []
    for rank in range(int(counts.max())):
        tiles = np.flatnonzero(counts > rank)
        ranks.append((torch.from_numpy(tiles).to(device), torch.from_numpy(first[tiles] + rank).to(device)))
    return ranks


def _power(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))


def _warps(width: int) -> int:
    return 4 if width <= 2048 else 8 if width <= 8192 else 16


def _tile(size: int, dtype: torch.dtype) -> tuple[tuple[int, int, int, int], int]:
    """Head size, its power of two, rows and keys of a tile of attention; and how many tiles are loaded ahead.

    The same for trees and pages, so that sums have one order.
    """
    block = _power(size)
    width = block * dtype.itemsize
    return (size, block, ROWS, KEYS if width <= _LONG else KEYS // 2), 2 if width <= _LONG // 2 else 1


def _queries(heads: int, shared: int) -> tuple[int, int]:
    """Query heads of a key head, and tokens of a block."""
    repeat = heads // shared
    return repeat, ROWS // repeat


# ---------------------------------------------------------------- norms, the gate, rotary turns


def add_norm(x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.add_norm`."""
    x = x.contiguous()
    rows, width = x.shape
    sums = x if delta is None else torch.empty_like(x)
    normal, inverse = torch.empty_like(x, dtype=dtype), x.new_empty(rows)
    if rows:
        other = x if delta is None else delta.contiguous()
        block = _power(width)
        kernels.add_norm[(rows,)](
            x, other, sums, normal, inverse, width, epsilon, delta is not None, block, num_warps=_warps(block)
        )
    return sums, normal, inverse


def add_norm_backward(
    gradient: Tensor, normal: Tensor, inverse: Tensor, more: Tensor | None, *, delta: bool
) -> tuple[Tensor, Tensor | None]:
    """See `kernels.add_norm_backward`."""
    gradient = gradient.contiguous()
    rows, width = normal.shape
    for_x = torch.empty_like(normal, dtype=torch.float32)
    for_delta = torch.empty_like(normal) if delta else None
    if rows:
        block = _power(width)
        kernels.add_norm_backward[(rows,)](
            gradient,
            normal,
            inverse,
            for_x if more is None else more.contiguous(),
            for_x,
            for_x if for_delta is None else for_delta,
            width,
            more is not None,
            delta,
            block,
            num_warps=_warps(block),
        )
    return for_x, for_delta


def gate(both: Tensor, opening: Opening = "silu") -> Tensor:
    """See `kernels.gate`."""
    both = both.contiguous()
    rows, width = len(both), both.shape[1] // 2
    out = both.new_empty(rows, width)
    if rows:
        grid = (rows, triton.cdiv(width, _COLUMNS))
        kernels.gate[grid](both, out, width, opening, _COLUMNS)
    return out


def gate_backward(gradient: Tensor, both: Tensor, opening: Opening = "silu") -> Tensor:
    """See `kernels.gate_backward`."""
    both, gradient = both.contiguous(), gradient.contiguous()
    rows, width = gradient.shape
    out = torch.empty_like(both)
    if rows:
        grid = (rows, triton.cdiv(width, _COLUMNS))
        kernels.gate_backward[grid](gradient, both, out, width, opening, _COLUMNS)
    return out


def apply_rope(
    qkv: Tensor, weight: Tensor | None, cosine: Tensor, sine: Tensor, depth: Tensor, epsilon: float, shared: int
) -> tuple[Tensor, Tensor]:
    """See `kernels.apply_rope`."""
    size = cosine.shape[1]
    every = qkv.shape[1] // size
    turning, rows = every - shared, len(qkv)
    turned, inverse = qkv.new_empty(rows, turning * size), qkv.new_empty(rows, turning, dtype=torch.float32)
    if rows:
        norm = cosine if weight is None else weight.contiguous()
        kernels.apply_rope[(rows, turning)](
            qkv.contiguous(),
            norm,
            cosine,
            sine,
            depth,
            turned,
            inverse,
            every,
            turning,
            epsilon,
            size,
            weight is not None,
            _power(size),
            num_warps=1,
        )
    return turned, inverse


def apply_rope_backward(
    gradient: Tensor,
    qkv: Tensor,
    weight: Tensor | None,
    cosine: Tensor,
    sine: Tensor,
    depth: Tensor,
    inverse: Tensor,
    shared: int,
) -> tuple[Tensor, Tensor | None]:
    """See `kernels.apply_rope_backward`."""
    size = cosine.shape[1]
    every = qkv.shape[1] // size
    turning, rows = every - shared, len(qkv)
    out = torch.empty_like(qkv)
    for_weight = None if weight is None else gradient.new_zeros(turning, size)
    gradient, qkv = gradient.contiguous(), qkv.contiguous()
    for start in range(0, rows, TURNED):
        part = slice(start, start + TURNED)
        shares = None if weight is None else gradient.new_empty(len(qkv[part]), turning, size)
        kernels.apply_rope_backward[(len(qkv[part]), every)](
            gradient[part],
            qkv[part],
            cosine if weight is None else weight.contiguous(),
            cosine,
            sine,
            depth[part],
            inverse[part],
            out[part],
            gradient if shares is None else shares,
            every,
            turning,
            size,
            weight is not None,
            _power(size),
            num_warps=1,
        )
        if for_weight is not None and shares is not None:
            for_weight += shares.sum(0)
    return out, for_weight


# ---------------------------------------------------------------- attention


def _bounded(bounds: ScoreBounds, like: Tensor) -> tuple[float, int, bool, Tensor, bool]:
    """Cap, window, whether there is a cap, sinks, and whether there are any."""
    sinks = like if bounds.sinks is None else bounds.sinks.contiguous()
    return bounds.cap or 1.0, bounds.window, bool(bounds.cap), sinks, bounds.sinks is not None


def tree_attention(
    turned: Tensor,
    qkv: Tensor,
    paths: TritonTree,
    scale: float,
    size: int,
    shared: int,
    bounds: ScoreBounds = UNBOUNDED,
) -> tuple[Tensor, Tensor]:
    """See `kernels.tree_attention`."""
    heads, rows = qkv.shape[1] // size - 2 * shared, len(qkv)
    out = qkv.new_empty(rows, heads * size)
    sums = qkv.new_empty(rows, heads, dtype=torch.float32)
    repeat, queries = _queries(heads, shared)
    cap, window, capped, sinks, sinking = _bounded(bounds, sums)
    blocks, (tile, stages) = paths.blocks(queries), _tile(size, qkv.dtype)
    kernels.tree_attention[(len(blocks[0]), shared)](
        turned,
        qkv.contiguous(),
        paths.path,
        *blocks,
        sinks,
        out,
        sums,
        heads,
        shared,
        repeat,
        scale,
        cap,
        window,
        capped,
        sinking,
        *tile,
        num_stages=stages,
    )
    return out, sums


def tree_attention_backward(
    turned: Tensor,
    qkv: Tensor,
    out: Tensor,
    gradient: Tensor,
    sums: Tensor,
    paths: TritonTree,
    scale: float,
    size: int,
    shared: int,
    bounds: ScoreBounds = UNBOUNDED,
) -> Tensor:
    """See `kernels.tree_attention_backward`."""
    heads, rows = qkv.shape[1] // size - 2 * shared, len(qkv)
    gradient, qkv = gradient.to(out.dtype).contiguous(), qkv.contiguous()
    along = (gradient.float() * out.float()).view(rows, heads, size).sum(-1)
    result = torch.empty(rows, heads + 2 * shared, size, dtype=torch.float32, device=qkv.device)
    repeat, queries = _queries(heads, shared)
    cap, window, capped, *_ = _bounded(bounds, sums)
    tile, stages = _tile(size, qkv.dtype)
    shape = (heads, shared, repeat, scale, cap, window, capped)
    blocks = paths.blocks(queries)
    kernels.tree_attention_backward_queries[(len(blocks[0]), shared)](
        turned, qkv, gradient, sums, along, paths.path, *blocks, result, *shape, *tile, num_stages=stages
    )
    items = paths.items(tile[3])
    bounds_of, ranks = items.bounds, items.ranks
    parts = torch.empty(len(bounds_of[0]), tile[3], 2 * shared, size, dtype=torch.float32, device=qkv.device)
    arguments = (turned, qkv, gradient, sums, along, paths.end, paths.depth, *bounds_of, parts, rows)
    kernels.tree_attention_backward_keys[(len(parts), shared)](*arguments, *shape, *tile, num_stages=1)
    summed = parts[ranks[0][1]] if len(ranks) > 1 else parts
    for tiles, chosen in ranks[1:]:  # Tiles are distinct, so that sums have one order.
        summed.index_add_(0, tiles, parts[chosen])
    result[:, heads:] = summed.view(-1, 2 * shared, size)[:rows]
    return result.flatten(1)


def placed(
    table: Tensor, run_start: Tensor, run_row: Tensor, position: Tensor, device: torch.device, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """On the device, with runs in parts of as many tokens as a tile holds."""
    starts: list[int] = []
    rows: list[int] = []
    bounds, most = run_start.tolist(), ROWS // group
    for first, last, row in zip(bounds[:-1], bounds[1:], run_row.tolist(), strict=True):
        parts = range(first, max(last, first + 1), most)
        starts += parts
        rows += [row] * len(parts)
    columns = (torch.tensor([*starts, bounds[-1]], dtype=torch.int32), torch.tensor(rows, dtype=torch.int32))
    return table.to(device), columns[0].to(device), columns[1].to(device)


def paged_attention(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    position: Tensor,
    slot: Tensor,
    table: Tensor,
    run_start: Tensor,
    run_row: Tensor,
    weight: Tensor | None,
    epsilon: float,
    cosine: Tensor,
    sine: Tensor,
    scale: float,
    heads: int,
    shared: int,
    bounds: ScoreBounds = UNBOUNDED,
    sums: Tensor | None = None,
) -> Tensor:
    """See `kernels.paged_attention`; no run has more tokens than a tile holds, see `placed`."""
    size, rows = cosine.shape[1], len(qkv)
    qkv = qkv.contiguous()
    turned, _ = apply_rope(qkv, weight, cosine, sine, position, epsilon, shared)
    out = torch.zeros(rows, heads * size, dtype=qkv.dtype, device=qkv.device)
    if not rows or not len(run_row):
        return out
    tile, stages = _tile(size, qkv.dtype)
    block = tile[1]
    kernels.write_pages[(rows, shared)](turned, qkv, keys, values, slot, heads, shared, PAGE, size, block, num_warps=1)
    cap, window, capped, sinks, sinking = _bounded(bounds, cosine)
    kernels.paged_attention[(len(run_row), shared)](
        turned,
        keys,
        values,
        position,
        table,
        table.stride(0),
        run_start,
        run_row,
        sinks,
        out,
        cosine if sums is None else sums,
        heads,
        shared,
        heads // shared,
        scale,
        cap,
        window,
        capped,
        sinking,
        sums is not None,
        PAGE,
        *tile,
        num_stages=stages,
    )
    return out


# ---------------------------------------------------------------- choices


def token_logprobs(
    logits: Tensor, action: Tensor, temperature: Tensor, *, entropy: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """See `kernels.token_logprobs`."""
    rows, width = logits.shape
    logp, peaks, totals, spread = logits.new_empty(4, rows, dtype=torch.float32)
    if rows:
        kernels.token_logprobs[(rows,)](
            logits.contiguous(), action, temperature, logp, peaks, totals, spread, width, entropy, _COLUMNS
        )
    return logp, peaks, totals, spread if entropy else None


def token_logprobs_backward(
    logits: Tensor,
    action: Tensor,
    temperature: Tensor,
    peaks: Tensor,
    totals: Tensor,
    entropy: Tensor | None,
    gradient: Tensor,
    for_entropy: Tensor | None,
) -> None:
    """See `kernels.token_logprobs_backward`."""
    rows, width = logits.shape
    if not rows:
        return
    wanted = entropy is not None and for_entropy is not None
    kernels.token_logprobs_backward[(rows, triton.cdiv(width, _COLUMNS))](
        logits,
        action,
        temperature,
        peaks,
        totals,
        entropy if wanted else totals,
        gradient.contiguous(),
        for_entropy if wanted else totals,
        width,
        wanted,
        _COLUMNS,
    )


def draw(logits: Tensor, uniform: Tensor, temperature: Tensor, greedy: Tensor, forced: Tensor) -> tuple[Tensor, Tensor]:
    """See `kernels.draw`."""
    rows, width = logits.shape
    token, logp = torch.empty_like(forced), torch.empty_like(temperature)
    if rows:
        kernels.draw[(rows,)](logits.contiguous(), uniform, temperature, greedy, forced, token, logp, width, _COLUMNS)
    return token, logp

"""Operations of a decoder in plain torch, for any device and type; signatures as in `hocket.policies.kernels`.

Attention is computed by tiles of queries and keys with a running softmax, and the backward pass computes its scores
again, so that memory grows with the number of tokens, not with its square. Arithmetic is fp32, or fp64 of fp64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.kernels import PAGE, UNBOUNDED, Opening, ScoreBounds
from hocket.policies.operations.flat_tree import FlatTree

RECORDABLE = False
QUERIES = 256
"""Tokens of a tile of queries."""
SCORES = 2**22
"""Scores of a tile on a processor, which its caches should hold."""
DEVICE_SCORES = 2**27
"""The same on an accelerator, half a gigabyte in fp32; short products leave most of it idle."""


def wide(x: Tensor) -> Tensor:
    """In the type that is computed in."""
    return x if x.dtype is torch.float64 else x.float()


def _heads(x: Tensor, size: int) -> Tensor:
    """`[M, heads * D]` as `[M, heads, D]`."""
    return x.reshape(len(x), x.shape[1] // size, size)


def _split_rows(x: Tensor, parts: int) -> Tensor:
    """`[B, parts * Q, D]` as `[B, parts, Q, D]`."""
    return x.view(len(x), parts, x.shape[1] // parts, -1)


# ---------------------------------------------------------------- norms and the gate


def scale_down(x: Tensor, epsilon: float) -> Tensor:
    """1 / RMS(x) over the last axis, `[.., 1]`."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return length.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()


def normalise_backward(gradient: Tensor, normal: Tensor, inverse: Tensor) -> Tensor:
    """dL/dx of `normal = x * inverse`, where `inverse = 1 / RMS(x)`."""
    along = torch.linalg.vecdot(gradient, normal).unsqueeze_(-1)
    return torch.addcmul(gradient, normal, along, value=-1 / normal.shape[-1]).mul_(inverse)


def add_norm(x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.add_norm`."""
    sums = x if delta is None else x + delta
    inverse = scale_down(sums, epsilon)
    return sums, (sums * inverse).to(dtype), inverse.squeeze(-1)


def add_norm_backward(
    gradient: Tensor, normal: Tensor, inverse: Tensor, more: Tensor | None, *, delta: bool
) -> tuple[Tensor, Tensor | None]:
    """See `kernels.add_norm_backward`."""
    for_x = normalise_backward(gradient.to(inverse.dtype), normal.to(inverse.dtype), inverse[..., None])
    if more is not None:
        for_x += more
    return for_x, for_x.to(normal.dtype) if delta else None


def gate(both: Tensor, opening: Opening = "silu") -> Tensor:
    """See `kernels.gate`."""
    opened, up = both.chunk(2, -1)
    return _opened(opened, opening).mul_(up)


def gate_backward(gradient: Tensor, both: Tensor, opening: Opening = "silu") -> Tensor:
    """See `kernels.gate_backward`."""
    opened, up = both.chunk(2, -1)
    result = torch.empty_like(both)
    for_opened, for_up = result.chunk(2, -1)
    torch.mul(gradient, _opened(opened, opening), out=for_up)
    if opening == "sigmoid":
        shut = opened.sigmoid()
        torch.mul(gradient * up, shut * (1 - shut), out=for_opened)
    elif opening == "silu":
        torch.ops.aten.silu_backward.grad_input(gradient * up, opened, grad_input=for_opened)
    else:
        torch.ops.aten.gelu_backward.grad_input(gradient * up, opened, approximate="tanh", grad_input=for_opened)
    return result


def _opened(x: Tensor, opening: Opening) -> Tensor:
    if opening == "sigmoid":
        return x.sigmoid()
    return F.silu(x) if opening == "silu" else F.gelu(x, approximate="tanh")


# ---------------------------------------------------------------- rotary turns


def apply_rope(
    qkv: Tensor, weight: Tensor | None, cosine: Tensor, sine: Tensor, depth: Tensor, epsilon: float, shared: int
) -> tuple[Tensor, Tensor]:
    """See `kernels.apply_rope`."""
    size, place = cosine.shape[1], depth.long()
    x = _heads(wide(qkv), size)
    x = x[:, : x.shape[1] - shared]
    inverse = torch.ones_like(x[..., 0])
    if weight is not None:
        column = scale_down(x, epsilon)
        x, inverse = x * column * weight, column.squeeze(-1)
    turned = torch.addcmul(x * cosine[place][:, None], _swapped(x), sine[place][:, None])
    return turned.flatten(1).to(qkv.dtype), inverse


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
    size, place = cosine.shape[1], depth.long()
    each = _heads(gradient, size)
    turning = each.shape[1] - shared
    back = _swapped(each[:, :turning] * sine[place][:, None]).addcmul_(each[:, :turning], cosine[place][:, None])
    for_weight = None
    if weight is not None:
        normal = _heads(wide(qkv), size)[:, :turning] * inverse[..., None]
        for_weight = (back * normal).sum(0)
        back = normalise_backward(back.mul_(weight), normal, inverse[..., None])
    return torch.cat((back, each[:, turning:]), 1).flatten(1).to(qkv.dtype), for_weight


def _swapped(x: Tensor) -> Tensor:
    """The two halves of the last axis exchanged."""
    half = x.shape[-1] // 2
    return torch.cat((x[..., half:], x[..., :half]), -1)


# ---------------------------------------------------------------- attention


class KeyChunk(NamedTuple):
    """Keys `[B, D, K]`, values `[B, K, D]`, and which scores are hidden `[.., Q, K]`, None for none."""

    keys: Tensor
    values: Tensor
    hidden: Tensor | None


def _scores(q: Tensor, chunk: KeyChunk, repeat: int, scale: float, cap: float) -> tuple[Tensor, Tensor | None]:
    """Scores `[B, repeat * Q, K]`, and their tangents where a cap bounds them."""
    scores = torch.bmm(q, chunk.keys).mul_(scale)
    tangents = None
    if cap:
        tangents = scores.div_(cap).tanh_()
        scores = tangents * cap
    if chunk.hidden is not None:
        _split_rows(scores, repeat).masked_fill_(chunk.hidden, -torch.inf)
    return scores, tangents


def _attend(
    q: Tensor, chunks: Iterable[KeyChunk], repeat: int, scale: float, cap: float, sinks: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What queries `[B, repeat * Q, D]` mix, and log-sums of scores `[B, repeat * Q, 1]`; sinks of that shape."""
    peak = torch.full_like(q[..., :1], -torch.inf) if sinks is None else sinks
    total = torch.zeros_like(peak) if sinks is None else torch.ones_like(peak)
    mixed = torch.zeros_like(q)
    for chunk in chunks:
        scores, _ = _scores(q, chunk, repeat, scale, cap)
        higher = torch.maximum(peak, scores.amax(-1, keepdim=True))
        level = higher.masked_fill(higher == -torch.inf, 0.0)  # Nothing is visible yet.
        chances, rest = scores.sub_(level).exp_(), torch.exp(peak - level)
        total = total * rest + chances.sum(-1, keepdim=True)
        mixed = torch.baddbmm(mixed.mul_(rest), chances, chunk.values)
        peak = higher
    return mixed.div_(total), peak + torch.log(total)


def _grouped(x: Tensor, shared: int) -> Tensor:
    """`[Q, H, D]` as `[S, repeat * Q, D]`."""
    return _split_rows(x, shared).permute(1, 2, 0, 3).flatten(1, 2)


def _ungrouped(x: Tensor, repeat: int) -> Tensor:
    """Back to `[Q, H, D]`."""
    return _split_rows(x, repeat).permute(2, 0, 1, 3).flatten(1, 2)


def _most_scores(device: torch.device) -> int:
    return SCORES if device.type == "cpu" else DEVICE_SCORES


def _split(turned: Tensor, qkv: Tensor, size: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries `[M, H, D]`, keys and values `[M, S, D]`."""
    queries = _heads(turned, size)
    heads = queries.shape[1] - shared
    return queries[:, :heads], queries[:, heads:], _heads(qkv, size)[:, heads + shared :]


def _tree_chunks(
    first: int, last: int, keys: Tensor, values: Tensor, heads: int, paths: FlatTree, window: int
) -> Iterator[tuple[Tensor, KeyChunk]]:
    """The flat places of keys that the queries first..last-1 may see, in parts, and what stands there."""
    place = paths.visible(first, last, window)
    step = max(1, _most_scores(keys.device) // (heads * (last - first)))
    for start in range(0, len(place), step):
        part = place[start : start + step]
        hidden = paths.hidden(first, last, part, window)
        yield part, KeyChunk(wide(keys[part]).permute(1, 2, 0), wide(values[part]).transpose(0, 1), hidden)


def tree_attention(
    turned: Tensor, qkv: Tensor, paths: FlatTree, scale: float, size: int, shared: int, bounds: ScoreBounds = UNBOUNDED
) -> tuple[Tensor, Tensor]:
    """See `kernels.tree_attention`."""
    queries, keys, values = _split(turned, qkv, size, shared)
    heads, rows = queries.shape[1], len(qkv)
    out = qkv.new_empty(rows, heads, size)
    sums = queries.new_empty(rows, heads, dtype=wide(qkv[:0]).dtype)
    for first in range(0, rows, QUERIES):
        last = min(first + QUERIES, rows)
        q = _grouped(wide(queries[first:last]), shared)
        sinks = None
        if bounds.sinks is not None:
            sinks = _grouped(bounds.sinks[None, :, None].expand(last - first, -1, 1), shared).to(q.dtype)
        chunks = (chunk for _, chunk in _tree_chunks(first, last, keys, values, heads, paths, bounds.window))
        mixed, log_sums = _attend(q, chunks, heads // shared, scale, bounds.cap, sinks)
        out[first:last] = _ungrouped(mixed, heads // shared)
        sums[first:last] = _ungrouped(log_sums, heads // shared).squeeze(-1)
    return out.flatten(1), sums


def tree_attention_backward(
    turned: Tensor,
    qkv: Tensor,
    out: Tensor,
    gradient: Tensor,
    sums: Tensor,
    paths: FlatTree,
    scale: float,
    size: int,
    shared: int,
    bounds: ScoreBounds = UNBOUNDED,
) -> Tensor:
    """See `kernels.tree_attention_backward`."""
    queries, keys, values = _split(turned, qkv, size, shared)
    rows, heads = len(qkv), queries.shape[1]
    repeat = heads // shared
    result = torch.zeros(rows, heads + 2 * shared, size, dtype=sums.dtype, device=qkv.device)
    mixed, back = _heads(out, size), _heads(gradient, size)
    for first in range(0, rows, QUERIES):
        tile = slice(first, min(first + QUERIES, rows))
        q, g = _grouped(wide(queries[tile]), shared), _grouped(wide(back[tile]), shared)
        along = (g * _grouped(wide(mixed[tile]), shared)).sum(-1, keepdim=True)
        level = _grouped(sums[tile, :, None], shared)
        for_q = torch.zeros_like(q)
        for place, chunk in _tree_chunks(first, tile.stop, keys, values, heads, paths, bounds.window):
            scores, tangents = _scores(q, chunk, repeat, scale, bounds.cap)
            chances = scores.sub_(level).exp_()
            slopes = torch.bmm(g, chunk.values.transpose(1, 2)).sub_(along).mul_(chances)
            if tangents is not None:
                slopes.mul_(1 - tangents.square_())
            slopes.mul_(scale)
            for_q.baddbmm_(slopes, chunk.keys.transpose(1, 2))
            for_k = torch.bmm(slopes.transpose(1, 2), q).transpose(0, 1)
            for_v = torch.bmm(chances.transpose(1, 2), g).transpose(0, 1)
            # Places are distinct, so that sums have one order on every device.
            result.index_add_(
                0, place, torch.cat((torch.zeros_like(for_k[:, :1]).expand(-1, heads, -1), for_k, for_v), 1)
            )
        result[tile, :heads] += _ungrouped(for_q, repeat)
    return result.flatten(1)


def placed(
    table: Tensor, run_start: Tensor, run_row: Tensor, position: Tensor, device: torch.device, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The pages in use, on the device; runs stay on the processor, where they are read."""
    pages = int(position.max()) // PAGE + 1 if len(position) else 0
    return table[:, :pages].to(device), run_start, run_row


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
    """See `kernels.paged_attention`; `run_start` and `run_row` are on the processor."""
    size, device = cosine.shape[1], qkv.device
    turned, _ = apply_rope(qkv, weight, cosine, sine, position, epsilon, shared)
    queries, new_keys, new_values = _split(turned, qkv, size, shared)
    starts = run_start.tolist()
    out = qkv.new_zeros(len(qkv), heads, size)
    if len(starts) < 2:
        return out.flatten(1)
    written = slice(starts[0], starts[-1])
    page, offset = (slot[written] // PAGE).long(), (slot[written] % PAGE).long()
    keys[page, :, :, offset] = new_keys[written]
    values[page, :, offset] = new_values[written]
    for rows, first, length in _blocks(starts):
        token = torch.tensor(first, device=device)[:, None] + torch.arange(length, device=device)
        pages = table[run_row[rows].to(table.device)].long()
        q = wide(queries[token])
        q = torch.cat([_grouped(query, shared) for query in q]) if length > 1 else q.reshape(-1, heads // shared, size)
        sinks = None
        if bounds.sinks is not None:
            each = bounds.sinks.view(shared, -1, 1).expand(-1, -1, length).reshape(shared, -1, 1)
            sinks = each.repeat(len(first), 1, 1).to(q.dtype)
        chunks = _page_chunks(pages, position[token], keys, values, heads, bounds.window)
        mixed, log_sums = _attend(q, chunks, heads // shared, scale, bounds.cap, sinks)
        order = (len(first), shared, heads // shared, length, -1)
        out[token] = mixed.view(order).permute(0, 3, 1, 2, 4).flatten(2, 3).to(out.dtype)
        if sums is not None:
            sums[token] = log_sums.view(order).permute(0, 3, 1, 2, 4).flatten(2).to(sums.dtype)
    return out.flatten(1)


def _blocks(starts: list[int]) -> Iterator[tuple[list[int], list[int], int]]:
    """Runs computed together, their first tokens and equal lengths: all those of one token, others alone in parts."""
    lengths = [last - first for first, last in pairwise(starts)]
    singles = [number for number, length in enumerate(lengths) if length == 1]
    if singles:
        yield singles, [starts[number] for number in singles], 1
    for number, length in enumerate(lengths):
        if length > 1:
            for part in range(0, length, QUERIES):
                yield [number], [starts[number] + part], min(QUERIES, length - part)


def _page_chunks(
    pages: Tensor, position: Tensor, keys: Tensor, values: Tensor, heads: int, window: int
) -> Iterator[KeyChunk]:
    """What rows read in their pages `[B, W]`, in parts; queries stand at positions `[B, Q]`."""
    rows, shared = len(pages), keys.shape[1]
    step = max(1, _most_scores(keys.device) // (heads * position.numel() * PAGE))
    for start in range(0, pages.shape[1], step):
        part = pages[:, start : start + step]
        k = wide(keys[part]).permute(0, 2, 3, 1, 4).reshape(rows * shared, -1, part.shape[1] * PAGE)
        v = wide(values[part]).transpose(1, 2).reshape(rows * shared, part.shape[1] * PAGE, -1)
        place = torch.arange(start * PAGE, start * PAGE + k.shape[-1], device=keys.device)
        hidden = place > position[..., None]
        if window:
            hidden |= place <= position[..., None] - window
        hidden = hidden[:, None, None].expand(-1, shared, -1, -1, -1).flatten(0, 1)
        yield KeyChunk(k, v, hidden)


# ---------------------------------------------------------------- choices


def token_logprobs(
    logits: Tensor, action: Tensor, temperature: Tensor, *, entropy: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """See `kernels.token_logprobs`."""
    x = wide(logits)
    peaks = x.amax(1)
    scores = (x - peaks[:, None]).div_(temperature[:, None])
    chances = scores.exp()
    totals = chances.sum(1)
    base = totals.log()
    logp = scores.gather(1, action[:, None]).squeeze(1) - base
    if not entropy:
        return logp, peaks, totals, None
    # A logit of -inf has probability 0 and adds nothing.
    return logp, peaks, totals, base - chances.mul_(scores.masked_fill_(chances == 0, 0.0)).sum(1) / totals


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
    scores = (wide(logits) - peaks[:, None]).div_(temperature[:, None])
    chances = scores.exp().div_(totals[:, None])
    by = gradient / temperature
    slopes = chances * -by[:, None]
    if for_entropy is not None and entropy is not None:
        scores.masked_fill_(chances == 0, 0.0).add_((entropy - totals.log())[:, None])
        slopes -= scores.mul_(chances).mul_((for_entropy / temperature)[:, None])
    slopes.scatter_add_(1, action[:, None], by[:, None])
    logits.copy_(slopes)


def draw(logits: Tensor, uniform: Tensor, temperature: Tensor, greedy: Tensor, forced: Tensor) -> tuple[Tensor, Tensor]:
    """See `kernels.draw`."""
    warm = torch.where(greedy, torch.ones_like(temperature), temperature)
    peaks = logits.amax(1)
    scores = (logits - peaks[:, None]).div_(warm[:, None])
    chances = scores.exp()
    reached = torch.cumsum(chances, 1, dtype=torch.float64)
    # The first entry that reaches a positive threshold has a positive probability.
    token = torch.searchsorted(reached, uniform[:, None] * reached[:, -1:]).squeeze(1).clamp_(max=logits.shape[1] - 1)
    token = torch.where(greedy, logits.argmax(1), token)
    token = torch.where(forced >= 0, forced, token)
    return token, scores.gather(1, token[:, None]).squeeze(1) - chances.sum(1).log()

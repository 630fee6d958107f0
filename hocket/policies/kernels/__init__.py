"""A few fused loops in C++ for sampler and learner on processors; what is theirs to compute, and when, see `available`.

Each function allocates its results and runs on `torch.get_num_threads()` threads. Activations are fp32 or bf16 (the
same type throughout a call), all arithmetic is fp32. A result of one token does not depend, to the last bit, on the
tokens beside it, the pages or tree it is read from, or the threads.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from hocket.policies.kernels.build import library, reason

__all__ = ["ANY_HEAD", "PAGE", "UNBOUNDED", "Opening", "ScoreBounds", "StateRuns", "TreePaths", "available", "reason"]

RECORDABLE = False
PAGE = 16
"""Positions per page of keys and values."""

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
_TREE = (_POINTER,) * 5 + (_INT,)
_BOUNDS = (_INT, _FLOAT)
_SIGNATURES = {
    "add_norm": (_INT, *(_POINTER,) * 5, _INT, _INT, _FLOAT, _INT),
    "add_norm_backward": (_INT, *(_POINTER,) * 6, _INT, _INT, _INT),
    "gate": (_INT, _INT, _POINTER, _POINTER, _INT, _INT, _INT),
    "gate_backward": (_INT, _INT, *(_POINTER,) * 3, _INT, _INT, _INT),
    "apply_rope": (_INT, *(_POINTER,) * 5, _FLOAT, _POINTER, _POINTER, *(_INT,) * 4),
    "apply_rope_backward": (_INT, *(_POINTER,) * 9, *(_INT,) * 4),
    "tree_attention": (_INT, *(_POINTER,) * 2, *_TREE, _FLOAT, *_BOUNDS, *(_POINTER,) * 3, *(_INT,) * 3),
    "tree_attention_backward": (_INT, *(_POINTER,) * 5, *_TREE, _FLOAT, *_BOUNDS, _POINTER, *(_INT,) * 3),
    "paged_attention": (
        _INT,
        *(_POINTER,) * 6,
        _INT,
        _POINTER,
        _POINTER,
        _INT,
        _POINTER,
        _FLOAT,
        _POINTER,
        _POINTER,
        _FLOAT,
        *_BOUNDS,
        _POINTER,
        _POINTER,
        _POINTER,
        *(_INT,) * 4,
    ),
    "token_logprobs": (_INT, *(_POINTER,) * 7, *(_INT,) * 3),
    "token_logprobs_backward": (_INT, *(_POINTER,) * 8, *(_INT,) * 3),
    "gather": (*(_POINTER,) * 4, *(_INT,) * 3),
    "draw": (*(_POINTER,) * 7, *(_INT,) * 3),
    "delta_rule": (*(_POINTER,) * 9, _INT, *(_POINTER,) * 2, *(_INT,) * 5),
    "delta_rule_backward": (*(_POINTER,) * 9, _INT, _POINTER, _INT, *(_POINTER,) * 5, *(_INT,) * 5),
    "all_layers": (
        *(_POINTER,) * 9,
        _INT,
        _INT,
        _FLOAT,
        *(_POINTER,) * 3,
        _INT,
        *(_POINTER,) * 2,
        _INT,
        _POINTER,
        *(_INT,) * 7,
    ),
    "routed": (*(_POINTER,) * 9, *(_INT,) * 8),
    "linear": (*(_POINTER,) * 5, *(_INT,) * 5),
    "sort_choices": (*(_POINTER,) * 4, *(_INT,) * 4),
    "grouped_linear": (*(_POINTER,) * 6, *(_INT,) * 5),
    "grouped_outer": (*(_POINTER,) * 5, *(_INT,) * 4),
    "sum_places": (_INT, *(_POINTER,) * 4, *(_INT,) * 4),
    "dot_rows": (_INT, *(_POINTER,) * 5, *(_INT,) * 3),
    "decode_nf4": (_INT, *(_POINTER,) * 4, *(_INT,) * 3),
}
_TYPES = (torch.float32, torch.bfloat16)
ANY_HEAD = 32
"""The library used where heads do not matter."""

Opening = Literal["silu", "gelu", "sigmoid"]
"""What opens a gate; `gelu` is the one by its tangent."""
_OPENINGS = {"silu": 0, "gelu": 1, "sigmoid": 2}


class ScoreBounds(NamedTuple):
    """What becomes of a layer's scores before they are weights; the plain case leaves them as they are.

    Attributes:
        window: how many positions a token sees, its own the last; 0 for all.
        cap: scores s become `cap * tanh(s / cap)`; 0 for none.
        sinks: one more score per head `[H]` fp32, whose weight goes nowhere (attention sinks, gpt-oss); or None.
    """

    window: int = 0
    cap: float = 0.0
    sinks: Tensor | None = None


UNBOUNDED = ScoreBounds()


class TreePaths(NamedTuple):
    """A forest of N nodes: which tokens are a node's own, and which pieces of the flat tokens its path is made of.

    Attributes:
        start, own: first flat place and number of a node's own tokens, `[N]`.
        piece: a node's path is pieces piece[n] .. piece[n + 1] - 1, in order, the last its own tokens, `[N + 1]`.
        begin, length: flat place and number of tokens of each piece. All int32.
    """

    start: Tensor
    own: Tensor
    piece: Tensor
    begin: Tensor
    length: Tensor


class StateRuns(NamedTuple):
    """N runs of consecutive tokens, each of which begins with a state and leaves one.

    Attributes:
        start, length: first token and number of tokens of each run.
        source, target: the slot that a run's first state is read from, and the one that its last is written to; -1 for
            a state of zeros, and for one that nobody needs. A run is after the one that it begins with. All int32.
    """

    start: Tensor
    length: Tensor
    source: Tensor
    target: Tensor


def available(head: int = ANY_HEAD) -> bool:
    """Whether the kernels can be had for heads of `head` numbers (compiled at first need, about ten seconds)."""
    return library(head) is not None


def add_norm(x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """`x + delta` (`x` itself without one), its RMS-normalised form in `dtype`, and 1 / RMS `[M]`; x `[M, H]` fp32."""
    x = _flat(x)
    sums = x if delta is None else torch.empty_like(x)
    normal = torch.empty(x.shape, dtype=dtype)
    inverse = torch.empty(len(x))
    delta = None if delta is None else _flat(delta.to(dtype))
    _call("add_norm", _half(dtype), x, delta, sums, normal, inverse, *x.shape, epsilon)
    return sums, normal, inverse


def add_norm_backward(
    gradient: Tensor, normal: Tensor, inverse: Tensor, more: Tensor | None, *, delta: bool
) -> tuple[Tensor, Tensor | None]:
    """dL/dx `[M, H]` fp32 and, if asked, the same in the type of `normal`; `more` is dL/d(x + delta) from elsewhere."""
    gradient = _flat(gradient.to(normal.dtype))
    more = None if more is None else _flat(more)
    for_x = torch.empty(normal.shape)
    for_delta = torch.empty_like(normal) if delta else None
    _call("add_norm_backward", _half(normal.dtype), gradient, normal, inverse, more, for_x, for_delta, *normal.shape)
    return for_x, for_delta


def gate(both: Tensor, opening: Opening = "silu") -> Tensor:
    """opening(gate) * up of `[M, 2 F]`."""
    both = _flat(both)
    out = both.new_empty(len(both), both.shape[1] // 2)
    _call("gate", _half(both.dtype), _OPENINGS[opening], both, out, *out.shape)
    return out


def gate_backward(gradient: Tensor, both: Tensor, opening: Opening = "silu") -> Tensor:
    """dL/d both `[M, 2 F]`."""
    out = torch.empty_like(both)
    gradient = _flat(gradient.to(both.dtype))
    _call("gate_backward", _half(both.dtype), _OPENINGS[opening], gradient, both, out, *gradient.shape)
    return out


def apply_rope(
    qkv: Tensor, weight: Tensor | None, cosine: Tensor, sine: Tensor, depth: Tensor, epsilon: float, shared: int
) -> tuple[Tensor, Tensor]:
    """Queries and keys of `qkv` `[M, (H + 2 S) D]`, normalised and turned, `[M, (H + S) D]`, and 1 / RMS `[M, H + S]`.

    `weight` `[H + S, D]` fp32; tables `[P, D]` fp32; `depth` `[M]` int32.
    """
    _expect(torch.int32, depth)
    size = cosine.shape[1]
    heads = qkv.shape[1] // size - 2 * shared
    turned = qkv.new_empty(len(qkv), (heads + shared) * size)
    inverse = torch.empty(len(qkv), heads + shared)
    _call(
        "apply_rope",
        _half(qkv.dtype),
        qkv,
        weight,
        cosine,
        sine,
        depth,
        epsilon,
        turned,
        inverse,
        len(qkv),
        heads,
        shared,
        head=size,
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
    """dL/d qkv in its type and dL/d weight, from fp32 gradients of turned queries, keys, and of values, like `qkv`."""
    size = cosine.shape[1]
    heads = qkv.shape[1] // size - 2 * shared
    out = torch.empty_like(qkv)
    for_weight = None if weight is None else torch.empty(heads + shared, size)
    _call(
        "apply_rope_backward",
        _half(qkv.dtype),
        gradient,
        qkv,
        weight,
        cosine,
        sine,
        depth,
        inverse,
        out,
        for_weight,
        len(qkv),
        heads,
        shared,
        head=size,
    )
    return out, for_weight


def tree_attention(
    turned: Tensor, qkv: Tensor, paths: TreePaths, scale: float, size: int, shared: int, bounds: ScoreBounds = UNBOUNDED
) -> tuple[Tensor, Tensor]:
    """Attention of each token to its path: `[M, H D]`, and log-sums of its scores `[M, H]`; values are read in qkv."""
    heads = qkv.shape[1] // size - 2 * shared
    out = qkv.new_empty(len(qkv), heads * size)
    sums = torch.empty(len(qkv), heads)
    _call(
        "tree_attention",
        _half(qkv.dtype),
        turned,
        qkv,
        *paths,
        len(paths.start),
        scale,
        *bounds,
        out,
        sums,
        heads,
        shared,
        head=size,
    )
    return out, sums


def tree_attention_backward(
    turned: Tensor,
    qkv: Tensor,
    out: Tensor,
    gradient: Tensor,
    sums: Tensor,
    paths: TreePaths,
    scale: float,
    size: int,
    shared: int,
    bounds: ScoreBounds = UNBOUNDED,
) -> Tensor:
    """Gradients of turned queries, keys, and of values, `[M, (H + 2 S) D]` fp32."""
    heads = qkv.shape[1] // size - 2 * shared
    result = torch.zeros(qkv.shape)
    _call(
        "tree_attention_backward",
        _half(qkv.dtype),
        turned,
        qkv,
        out,
        _flat(gradient.to(out.dtype)),
        sums,
        *paths,
        len(paths.start),
        scale,
        bounds.window,
        bounds.cap,
        result,
        heads,
        shared,
        head=size,
    )
    return result


def placed(
    table: Tensor, run_start: Tensor, run_row: Tensor, position: Tensor, device: torch.device, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What `paged_attention` reads of a pass, which is already where it is read."""
    return table, run_start, run_row


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
    """Writes the keys and values of M tokens to pages, then lets each attend to its row's positions up to its own.

    Args:
        qkv: `[M, (H + 2 S) D]` before norm and rotation. Results are `[M, H D]` of its type.
        keys, values: pages `[pages, S, D, 16]` and `[pages, S, 16, D]`, of the type of `qkv`; changed.
        position, slot: of each token `[M]` int32; slot = page * 16 + offset, -1 for a token that only fills a place.
        table: pages of each row `[R, W]` int32.
        run_start, run_row: tokens run_start[n] .. run_start[n + 1] - 1 are consecutive positions of row run_row[n],
            `[N + 1]` and `[N]` int32. Tokens of no run have slot -1.
        weight: of the norm of queries and keys `[H + S, D]` fp32, or None. cosine, sine: tables `[P, D]` fp32.
        sums: where log-sums of scores are written, `[M, H]` fp32.
    """
    _expect(qkv.dtype, keys, values)
    _expect(torch.int32, position, slot, table, run_start, run_row)
    size = cosine.shape[1]
    out = qkv.new_empty(len(qkv), heads * size)
    _call(
        "paged_attention",
        _half(qkv.dtype),
        qkv,
        keys,
        values,
        position,
        slot,
        table,
        table.shape[1],
        run_start,
        run_row,
        len(run_row),
        weight,
        epsilon,
        cosine,
        sine,
        scale,
        *bounds,
        out,
        sums,
        len(qkv),
        heads,
        shared,
        head=size,
    )
    return out


def token_logprobs(
    logits: Tensor, action: Tensor, temperature: Tensor, *, entropy: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Of softmax(logits / temperature): log-prob of `action`, largest score, sum of e^(score - largest), entropy if
    asked.

    Logits `[K, V]`, action `[K]` int64, temperature `[K]` fp32; results `[K]` fp32.
    """
    _expect(torch.int64, action)
    _expect(torch.float32, temperature)
    outputs = [torch.empty(len(logits)) for _ in range(4 if entropy else 3)]
    spread = outputs[3] if entropy else None
    _call("token_logprobs", _half(logits.dtype), logits, action, temperature, *outputs[:3], spread, *logits.shape)
    return outputs[0], outputs[1], outputs[2], spread


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
    """Replaces logits by dL/dlogits; arguments as `token_logprobs` took and returned them."""
    _call(
        "token_logprobs_backward",
        _half(logits.dtype),
        logits,
        action,
        temperature,
        peaks,
        totals,
        entropy,
        gradient,
        for_entropy,
        *logits.shape,
    )


def gather(blocks: Sequence[Tensor], chunk: Tensor, row: Tensor) -> Tensor:
    """Rows of several blocks as one tensor: row m is `blocks[chunk[m]][row[m]]`; both indices `[M]` int32."""
    _expect(torch.int32, chunk, row)
    first = blocks[0]
    out = torch.empty(len(row), *first.shape[1:], dtype=first.dtype)
    where = torch.tensor([block.data_ptr() for block in blocks])
    _call("gather", where, chunk, row, out, len(row), first[:1].nbytes)
    return out


def decode_nf4(codes: Tensor, scale: Tensor, pairs: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """A matrix `[N, width]` in `dtype` from numbers of 4 bits, which `stored_weights.encode` describes.

    Args:
        codes: bytes `[N, 32 B]` of B blocks a row. scale: of the blocks, `[N, B]` fp32.
        pairs: the two numbers of every byte, `[256, 2]` fp32.
    """
    _expect(torch.float32, scale, pairs)
    _expect(torch.uint8, codes)
    out = torch.empty(len(codes), width, dtype=dtype)
    _call("decode_nf4", _half(dtype), codes, scale, pairs, out, *out.shape)
    return out


def draw(logits: Tensor, uniform: Tensor, temperature: Tensor, greedy: Tensor, forced: Tensor) -> tuple[Tensor, Tensor]:
    """The next token of each row and its log-prob, `[R]`.

    The token is the first, in vocabulary order, whose cumulative probability reaches the row's uniform; the largest
    where greedy (log-prob at temperature 1); `forced` where that is not -1.

    Args:
        logits: `[R, V]` fp32. uniform: `[R]` fp64. temperature: `[R]` fp32. greedy: `[R]` bool. forced: `[R]` int64.
    """
    _expect(torch.float32, logits, temperature)
    _expect(torch.float64, uniform)
    _expect(torch.bool, greedy)
    _expect(torch.int64, forced)
    token, logp = torch.empty(len(logits), dtype=torch.int64), torch.empty(len(logits))
    _call("draw", logits, uniform, temperature, greedy, forced, token, logp, *logits.shape)
    return token, logp


def delta_rule(
    x: Tensor, a: Tensor, b: Tensor, rate: Tensor, bias: Tensor, runs: StateRuns, memory: Tensor, keys: int
) -> Tensor:
    """The gated delta rule (Yang et al. 2024, arXiv 2412.06464) from token to token, `[M, H V]`; all fp32.

    Args:
        x: queries, keys and values before their silu, `[M, 2 keys D + H V]`; both are brought to length 1.
        a, b: what states keep and what is written, before their gates, `[M, H]`. rate, bias: `[H]`, of what is kept.
        memory: states `[slots, H, D, V]`; changed. D and V are multiples of 16.
    """
    _expect(torch.float32, x, a, b, rate, bias, memory)
    _expect(torch.int32, *runs)
    _, heads, size, values = memory.shape
    out = x.new_zeros(len(x), heads * values)
    _call("delta_rule", x, a, b, rate, bias, *runs, len(runs.start), memory, out, keys, heads, size, values)
    return out


def delta_rule_backward(
    gradient: Tensor,
    x: Tensor,
    a: Tensor,
    b: Tensor,
    rate: Tensor,
    bias: Tensor,
    runs: StateRuns,
    memory: Tensor,
    keys: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dL/dx, dL/da, dL/db and dL/d rate; `memory` is what `delta_rule` left."""
    slots, heads, size, values = memory.shape
    slopes = torch.zeros_like(x), torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(rate)
    _call(
        "delta_rule_backward",
        x,
        a,
        b,
        rate,
        bias,
        *runs,
        len(runs.start),
        memory,
        slots,
        _flat(gradient),
        *slopes,
        keys,
        heads,
        size,
        values,
    )
    return slopes


def _half(dtype: torch.dtype) -> int:
    if dtype not in _TYPES:
        raise ValueError(f"kernels compute in {_TYPES}, not {dtype}")
    return int(dtype is torch.bfloat16)


def _expect(dtype: torch.dtype, *tensors: Tensor) -> None:
    """Addresses carry no types, so they are looked at before."""
    for tensor in tensors:
        if tensor.dtype is not dtype:
            raise ValueError(f"expected {dtype}, not {tensor.dtype}, of shape {tuple(tensor.shape)}")


def _flat(x: Tensor) -> Tensor:
    return x.contiguous()


@functools.cache
def _function(name: str, head: int) -> Callable[..., None]:
    loaded = library(head)
    if loaded is None:
        raise RuntimeError(f"the kernels are not available: {reason(head)}")
    function: Any = getattr(loaded, f"hocket_{name}")
    function.argtypes, function.restype = _SIGNATURES[name], None
    return function  # type: ignore[no-any-return]


def _call(name: str, *arguments: Tensor | float | None, head: int = ANY_HEAD) -> None:
    """Tensors go by address: they must be contiguous and on the processor."""
    addresses: list[float | None] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            if not argument.is_contiguous():
                raise ValueError(f"{name}: a tensor of shape {tuple(argument.shape)} is not contiguous")
            addresses.append(argument.data_ptr())
        else:
            addresses.append(argument)
    _function(name, head)(*addresses, torch.get_num_threads())

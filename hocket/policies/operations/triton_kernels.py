"""Kernels in Triton. Launched by `hocket.policies.operations.triton_column`, which says what the arguments are.

Both kinds of attention go through `_attend_tile`: 64 rows (queries of one key head's group) against 64 keys, tiles
counted from a row's first position. So what one token mixes is added in an order that depends on its own prefix alone,
whether its keys are read from a tree or from pages.
"""

# Triton's language has types of its own.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: D103

from __future__ import annotations

import triton
import triton.language as tl

NEVER = tl.constexpr(-1e30)
"""Below any score; finite, so that differences of it are no NaN."""


@triton.jit
def add_norm(x, delta, sums, normal, inverse, width, epsilon, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        value += tl.load(delta + row * width + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(sums + row * width + column, value, mask=inside)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
    tl.store(inverse + row, scale)
    tl.store(normal + row * width + column, (value * scale).to(normal.dtype.element_ty), mask=inside)


@triton.jit
def add_norm_backward(
    gradient,
    normal,
    inverse,
    more,
    for_x,
    for_delta,
    width,
    MORE: tl.constexpr,
    DELTA: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    at = row * width + column
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    n = tl.load(normal + at, mask=inside, other=0.0).to(tl.float32)
    result = (g - n * (tl.sum(g * n, 0) / width)) * tl.load(inverse + row)
    if MORE:
        result += tl.load(more + at, mask=inside, other=0.0)
    tl.store(for_x + at, result, mask=inside)
    if DELTA:
        tl.store(for_delta + at, result.to(for_delta.dtype.element_ty), mask=inside)


@triton.jit
def _tanh(x):
    e = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0, -size, size)


@triton.jit
def _opened(x, OPENING: tl.constexpr):
    """What opens a gate, and its slope."""
    s = 1.0 / (1.0 + tl.exp(-x))
    if OPENING == "silu":
        return x * s, s * (1.0 + x * (1.0 - s))
    if OPENING == "sigmoid":
        return s, s * (1.0 - s)
    t = _tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    slope = 0.7978845608028654 * (1.0 + 3 * 0.044715 * x * x)
    return 0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope


@triton.jit
def gate(both, out, width, OPENING: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(both + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    opened, _ = _opened(x, OPENING)
    tl.store(out + row * width + column, (opened * up).to(out.dtype.element_ty), mask=inside)


@triton.jit
def gate_backward(gradient, both, out, width, OPENING: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    at = row * 2 * width + column
    x = tl.load(both + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + at + width, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gradient + row * width + column, mask=inside, other=0.0).to(tl.float32)
    opened, slope = _opened(x, OPENING)
    tl.store(out + at, (g * up * slope).to(out.dtype.element_ty), mask=inside)
    tl.store(out + at + width, (g * opened).to(out.dtype.element_ty), mask=inside)


@triton.jit
def apply_rope(
    qkv,
    weight,
    cosine,
    sine,
    depth,
    turned,
    inverse,
    all_heads,
    turning,
    epsilon,
    SIZE: tl.constexpr,
    NORM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, BLOCK)
    inside = d < SIZE
    across = tl.where(d < SIZE // 2, d + SIZE // 2, d - SIZE // 2)
    row = qkv + (token * all_heads + head) * SIZE
    x = tl.load(row + d, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(row + across, mask=inside, other=0.0).to(tl.float32)
    scale = 1.0
    if NORM:
        scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / SIZE + epsilon)
        x = x * scale * tl.load(weight + head * SIZE + d, mask=inside, other=0.0)
        other = other * scale * tl.load(weight + head * SIZE + across, mask=inside, other=0.0)
    angle = tl.load(depth + token).to(tl.int64) * SIZE + d
    c = tl.load(cosine + angle, mask=inside, other=0.0)
    s = tl.load(sine + angle, mask=inside, other=0.0)
    at = token * turning + head
    tl.store(turned + at * SIZE + d, (x * c + other * s).to(turned.dtype.element_ty), mask=inside)
    tl.store(inverse + at, scale)


@triton.jit
def apply_rope_backward(
    gradient,
    qkv,
    weight,
    cosine,
    sine,
    depth,
    inverse,
    out,
    for_weight,
    all_heads,
    turning,
    SIZE: tl.constexpr,
    NORM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, BLOCK)
    inside = d < SIZE
    across = tl.where(d < SIZE // 2, d + SIZE // 2, d - SIZE // 2)
    at = (token * all_heads + head) * SIZE
    back = tl.load(gradient + at + d, mask=inside, other=0.0)
    if head < turning:
        place = tl.load(depth + token).to(tl.int64) * SIZE
        far = tl.load(gradient + at + across, mask=inside, other=0.0)
        c = tl.load(cosine + place + d, mask=inside, other=0.0)
        back = back * c + far * tl.load(sine + place + across, mask=inside, other=0.0)
        if NORM:
            scale = tl.load(inverse + token * turning + head)
            normal = tl.load(qkv + at + d, mask=inside, other=0.0).to(tl.float32) * scale
            tl.store(for_weight + (token * turning + head) * SIZE + d, back * normal, mask=inside)
            back = back * tl.load(weight + head * SIZE + d, mask=inside, other=0.0)
            back = (back - normal * (tl.sum(back * normal, 0) / SIZE)) * scale
    tl.store(out + at + d, back.to(out.dtype.element_ty), mask=inside)


# ---------------------------------------------------------------- attention


@triton.jit
def _score(q, k, scale, cap, CAPPED: tl.constexpr):
    """Scores `[64, 64]` of rows `[64, D]` and keys `[D, 64]`, and the slope of their bound."""
    scores = tl.dot(q, k, input_precision="ieee") * scale
    slope = tl.full(scores.shape, 1.0, tl.float32)
    if CAPPED:
        tangent = _tanh(scores / cap)
        scores = tangent * cap
        slope = 1.0 - tangent * tangent
    return scores, slope


@triton.jit
def _attend_tile(q, k, v, visible, peak, total, mixed, scale, cap, CAPPED: tl.constexpr):
    """One tile of keys `[D, 64]` and values `[64, D]` more for 64 rows."""
    scores, _ = _score(q, k, scale, cap, CAPPED)
    scores = tl.where(visible, scores, NEVER)
    higher = tl.maximum(peak, tl.max(scores, 1))
    chances = tl.where(visible, tl.exp(scores - higher[:, None]), 0.0)
    rest = tl.exp(peak - higher)
    total = total * rest + tl.sum(chances, 1)
    mixed = mixed * rest[:, None] + tl.dot(chances.to(v.dtype), v, input_precision="ieee")
    return higher, total, mixed


@triton.jit
def _begin(sinks, head, real, SINKS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Peak, total and mixed values before any key: a sink is one more score."""
    if SINKS:
        peak = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32)
        total = tl.full([ROWS], 1.0, tl.float32)
    else:
        peak = tl.full([ROWS], NEVER, tl.float32)
        total = tl.zeros([ROWS], tl.float32)
    return peak, total, tl.zeros([ROWS, BLOCK], tl.float32)


@triton.jit
def tree_attention(
    turned,
    qkv,
    path,
    block_first,
    block_count,
    block_path,
    block_place,
    sinks,
    out,
    sums,
    heads,
    shared,
    repeat,
    scale,
    cap,
    window,
    CAPPED: tl.constexpr,
    SINKS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    block, group = tl.program_id(0), tl.program_id(1)
    first = tl.load(block_first + block).to(tl.int64)
    count, start, place = tl.load(block_count + block), tl.load(block_path + block), tl.load(block_place + block)
    row, d = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    query, head = row // repeat, group * repeat + row % repeat
    real, inside = query < count, d < SIZE
    at = place + query
    token = first + query
    q = tl.load(
        turned + (token * (heads + shared) + head)[:, None] * SIZE + d[None, :],
        mask=real[:, None] & inside[None, :],
        other=0.0,
    )
    peak, total, mixed = _begin(sinks, head, real, SINKS, ROWS, BLOCK)
    low = 0
    if window > 0:
        low = tl.maximum(place - window + 1, 0) // KEYS * KEYS
    for begin in range(low, place + count, KEYS):
        n = begin + tl.arange(0, KEYS)
        exists = n < place + count
        key = tl.load(path + start + n, mask=exists, other=0).to(tl.int64)
        mask = exists[:, None] & inside[None, :]
        k = tl.load(
            turned + (key * (heads + shared) + heads + group)[:, None] * SIZE + d[None, :], mask=mask, other=0.0
        )
        v = tl.load(
            qkv + (key * (heads + 2 * shared) + heads + shared + group)[:, None] * SIZE + d[None, :],
            mask=mask,
            other=0.0,
        )
        visible = (n[None, :] <= at[:, None]) & real[:, None]
        if window > 0:
            visible = visible & (n[None, :] > at[:, None] - window)
        peak, total, mixed = _attend_tile(q, tl.trans(k), v, visible, peak, total, mixed, scale, cap, CAPPED)
    total = tl.where(real, total, 1.0)
    result = (mixed / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + (token * heads + head)[:, None] * SIZE + d[None, :], result, mask=real[:, None] & inside[None, :])
    tl.store(sums + token * heads + head, peak + tl.log(total), mask=real)


@triton.jit
def tree_attention_backward_queries(
    turned,
    qkv,
    gradient,
    sums,
    along,
    path,
    block_first,
    block_count,
    block_path,
    block_place,
    result,
    heads,
    shared,
    repeat,
    scale,
    cap,
    window,
    CAPPED: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    block, group = tl.program_id(0), tl.program_id(1)
    first = tl.load(block_first + block).to(tl.int64)
    count, start, place = tl.load(block_count + block), tl.load(block_path + block), tl.load(block_place + block)
    row, d = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    query, head = row // repeat, group * repeat + row % repeat
    real, inside = query < count, d < SIZE
    at = place + query
    token = first + query
    valid = real[:, None] & inside[None, :]
    q = tl.load(turned + (token * (heads + shared) + head)[:, None] * SIZE + d[None, :], mask=valid, other=0.0)
    g = tl.load(gradient + (token * heads + head)[:, None] * SIZE + d[None, :], mask=valid, other=0.0)
    level = tl.load(sums + token * heads + head, mask=real, other=0.0)
    share = tl.load(along + token * heads + head, mask=real, other=0.0)
    for_q = tl.zeros([ROWS, BLOCK], tl.float32)
    low = 0
    if window > 0:
        low = tl.maximum(place - window + 1, 0) // KEYS * KEYS
    for begin in range(low, place + count, KEYS):
        n = begin + tl.arange(0, KEYS)
        exists = n < place + count
        key = tl.load(path + start + n, mask=exists, other=0).to(tl.int64)
        mask = exists[:, None] & inside[None, :]
        k = tl.load(
            turned + (key * (heads + shared) + heads + group)[:, None] * SIZE + d[None, :], mask=mask, other=0.0
        )
        v = tl.load(
            qkv + (key * (heads + 2 * shared) + heads + shared + group)[:, None] * SIZE + d[None, :],
            mask=mask,
            other=0.0,
        )
        visible = (n[None, :] <= at[:, None]) & real[:, None]
        if window > 0:
            visible = visible & (n[None, :] > at[:, None] - window)
        scores, slope = _score(q, tl.trans(k), scale, cap, CAPPED)
        chances = tl.where(visible, tl.exp(scores - level[:, None]), 0.0)
        slopes = tl.dot(g, tl.trans(v), input_precision="ieee") - share[:, None]
        slopes = chances * slopes * slope * scale
        for_q += tl.dot(slopes.to(k.dtype), k, input_precision="ieee")
    tl.store(result + (token * (heads + 2 * shared) + head)[:, None] * SIZE + d[None, :], for_q, mask=valid)


@triton.jit
def tree_attention_backward_keys(
    turned,
    qkv,
    gradient,
    sums,
    along,
    end,
    depth,
    item_key,
    item_query,
    item_last,
    result,
    total,
    heads,
    shared,
    repeat,
    scale,
    cap,
    window,
    CAPPED: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    item, group = tl.program_id(0), tl.program_id(1)
    n, d, row = tl.arange(0, KEYS), tl.arange(0, BLOCK), tl.arange(0, ROWS)
    key = tl.load(item_key + item).to(tl.int64) + n
    exists, inside = key < total, d < SIZE
    mask = exists[:, None] & inside[None, :]
    k = tl.load(turned + (key * (heads + shared) + heads + group)[:, None] * SIZE + d[None, :], mask=mask, other=0.0)
    v = tl.load(
        qkv + (key * (heads + 2 * shared) + heads + shared + group)[:, None] * SIZE + d[None, :], mask=mask, other=0.0
    )
    last_seen = tl.load(end + key, mask=exists, other=0)
    key_depth = tl.load(depth + key, mask=exists, other=0)
    for_k, for_v = tl.zeros([KEYS, BLOCK], tl.float32), tl.zeros([KEYS, BLOCK], tl.float32)
    last = tl.load(item_last + item)
    step = ROWS // repeat
    for begin in range(tl.load(item_query + item), last, step):
        query, head = begin + row // repeat, group * repeat + row % repeat
        real = (row // repeat < step) & (query < last)
        token = query.to(tl.int64)
        valid = real[:, None] & inside[None, :]
        q = tl.load(turned + (token * (heads + shared) + head)[:, None] * SIZE + d[None, :], mask=valid, other=0.0)
        g = tl.load(gradient + (token * heads + head)[:, None] * SIZE + d[None, :], mask=valid, other=0.0)
        level = tl.load(sums + token * heads + head, mask=real, other=0.0)
        share = tl.load(along + token * heads + head, mask=real, other=0.0)
        visible = (key[None, :] <= token[:, None]) & (token[:, None] < last_seen[None, :]) & real[:, None]
        if window > 0:
            query_depth = tl.load(depth + token, mask=real, other=0)
            visible = visible & (key_depth[None, :] > query_depth[:, None] - window)
        scores, slope = _score(q, tl.trans(k), scale, cap, CAPPED)
        chances = tl.where(visible, tl.exp(scores - level[:, None]), 0.0)
        slopes = tl.dot(g, tl.trans(v), input_precision="ieee") - share[:, None]
        slopes = chances * slopes * slope * scale
        for_k += tl.dot(tl.trans(slopes.to(q.dtype)), q, input_precision="ieee")
        for_v += tl.dot(tl.trans(chances.to(g.dtype)), g, input_precision="ieee")
    at = ((item.to(tl.int64) * KEYS + n) * 2 * shared + group)[:, None] * SIZE + d[None, :]
    tl.store(result + at, for_k, mask=inside[None, :])
    tl.store(result + at + shared * SIZE, for_v, mask=inside[None, :])


@triton.jit
def write_pages(
    turned, qkv, keys, values, slot, heads, shared, PAGE: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    where = tl.load(slot + token).to(tl.int64)
    if where >= 0:
        page, offset = where // PAGE, where % PAGE
        d = tl.arange(0, BLOCK)
        inside = d < SIZE
        k = tl.load(turned + (token * (heads + shared) + heads + head) * SIZE + d, mask=inside)
        v = tl.load(qkv + (token * (heads + 2 * shared) + heads + shared + head) * SIZE + d, mask=inside)
        tl.store(keys + ((page * shared + head) * SIZE + d) * PAGE + offset, k, mask=inside)
        tl.store(values + ((page * shared + head) * PAGE + offset) * SIZE + d, v, mask=inside)


@triton.jit
def paged_attention(
    turned,
    keys,
    values,
    position,
    table,
    width,
    run_start,
    run_row,
    sinks,
    out,
    sums,
    heads,
    shared,
    repeat,
    scale,
    cap,
    window,
    CAPPED: tl.constexpr,
    SINKS: tl.constexpr,
    SUMS: tl.constexpr,
    PAGE: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    run, group = tl.program_id(0), tl.program_id(1)
    first = tl.load(run_start + run)
    count = tl.load(run_start + run + 1) - first
    if count > 0:
        pages = table + tl.load(run_row + run).to(tl.int64) * width
        place = tl.load(position + first)
        row, d = tl.arange(0, ROWS), tl.arange(0, BLOCK)
        query, head = row // repeat, group * repeat + row % repeat
        real, inside = query < count, d < SIZE
        at = place + query
        token = first.to(tl.int64) + query
        valid = real[:, None] & inside[None, :]
        q = tl.load(turned + (token * (heads + shared) + head)[:, None] * SIZE + d[None, :], mask=valid, other=0.0)
        peak, total, mixed = _begin(sinks, head, real, SINKS, ROWS, BLOCK)
        low = 0
        if window > 0:
            low = tl.maximum(place - window + 1, 0) // KEYS * KEYS
        for begin in range(low, place + count, KEYS):
            n = begin + tl.arange(0, KEYS)
            exists = n < place + count
            page = tl.load(pages + n // PAGE, mask=exists, other=0).to(tl.int64)
            k = tl.load(
                keys + ((page * shared + group) * SIZE * PAGE + n % PAGE)[None, :] + d[:, None] * PAGE,
                mask=inside[:, None] & exists[None, :],
                other=0.0,
            )
            v = tl.load(
                values + ((page * shared + group) * PAGE + n % PAGE)[:, None] * SIZE + d[None, :],
                mask=exists[:, None] & inside[None, :],
                other=0.0,
            )
            visible = (n[None, :] <= at[:, None]) & real[:, None]
            if window > 0:
                visible = visible & (n[None, :] > at[:, None] - window)
            peak, total, mixed = _attend_tile(q, k, v, visible, peak, total, mixed, scale, cap, CAPPED)
        total = tl.where(real, total, 1.0)
        result = (mixed / total[:, None]).to(out.dtype.element_ty)
        tl.store(out + (token * heads + head)[:, None] * SIZE + d[None, :], result, mask=valid)
        if SUMS:
            tl.store(sums + token * heads + head, peak + tl.log(total), mask=real)


# ---------------------------------------------------------------- choices


@triton.jit
def token_logprobs(
    logits, action, temperature, logp, peaks, totals, spread, width, ENTROPY: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    start, column = logits + row * width, tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for begin in range(0, width, BLOCK):
        x = tl.load(start + begin + column, mask=begin + column < width, other=float("-inf")).to(tl.float32)
        highest = tl.maximum(highest, x)
    peak, cold = tl.max(highest, 0), 1.0 / tl.load(temperature + row)
    parts, spreads = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for begin in range(0, width, BLOCK):
        x = tl.load(start + begin + column, mask=begin + column < width, other=float("-inf")).to(tl.float32)
        z = (x - peak) * cold
        chance = tl.exp(z)
        parts += chance
        if ENTROPY:
            spreads += tl.where(chance > 0, chance * z, 0.0)
    total = tl.sum(parts, 0)
    base = tl.log(total)
    chosen = tl.load(start + tl.load(action + row)).to(tl.float32)
    tl.store(logp + row, (chosen - peak) * cold - base)
    tl.store(peaks + row, peak)
    tl.store(totals + row, total)
    if ENTROPY:
        tl.store(spread + row, base - tl.sum(spreads, 0) / total)


@triton.jit
def token_logprobs_backward(
    logits,
    action,
    temperature,
    peaks,
    totals,
    entropy,
    gradient,
    for_entropy,
    width,
    ENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    total, cold = tl.load(totals + row), 1.0 / tl.load(temperature + row)
    by = tl.load(gradient + row) * cold
    x = tl.load(logits + row * width + column, mask=inside, other=float("-inf")).to(tl.float32)
    z = (x - tl.load(peaks + row)) * cold
    chance = tl.exp(z) / total
    slope = -by * chance
    if ENTROPY:
        level = tl.load(entropy + row) - tl.log(total)
        slope -= tl.load(for_entropy + row) * cold * tl.where(chance > 0, chance * (z + level), 0.0)
    slope += tl.where(column == tl.load(action + row), by, 0.0)
    tl.store(logits + row * width + column, slope.to(logits.dtype.element_ty), mask=inside)


@triton.jit
def draw(logits, uniform, temperature, greedy, forced, token, logp, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, column = logits + row * width, tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for begin in range(0, width, BLOCK):
        highest = tl.maximum(highest, tl.load(start + begin + column, mask=begin + column < width, other=float("-inf")))
    peak = tl.max(highest, 0)
    is_greedy = tl.load(greedy + row) != 0
    cold = tl.where(is_greedy, 1.0, 1.0 / tl.load(temperature + row))
    parts, best = tl.zeros([BLOCK], tl.float64), width
    for begin in range(0, width, BLOCK):
        x = tl.load(start + begin + column, mask=begin + column < width, other=float("-inf"))
        parts += tl.exp((x - peak) * cold).to(tl.float64)
        best = tl.minimum(best, tl.min(tl.where(x == peak, begin + column, width), 0))
    total = tl.sum(parts, 0)
    mark, reached, chosen = tl.load(uniform + row) * total, total * 0.0, width
    latest = 0
    for begin in range(0, width, BLOCK):
        x = tl.load(start + begin + column, mask=begin + column < width, other=float("-inf"))
        chance = tl.exp((x - peak) * cold).to(tl.float64)
        before = tl.cumsum(chance, 0) + reached
        fits = (before >= mark) & (chance > 0)
        chosen = tl.minimum(chosen, tl.min(tl.where(fits, begin + column, width), 0))
        latest = tl.maximum(latest, tl.max(tl.where(chance > 0, begin + column, 0), 0))
        reached += tl.sum(chance, 0)
    # Sums in another order may miss a mark close to the whole.
    chosen = tl.where(chosen < width, chosen, latest)
    imposed = tl.load(forced + row)
    chosen = tl.where(is_greedy, best, chosen).to(tl.int64)
    chosen = tl.where(imposed >= 0, imposed, chosen)
    tl.store(token + row, chosen)
    tl.store(logp + row, (tl.load(start + chosen) - peak) * cold - tl.log(total).to(tl.float32))

"""What the paged kernels must compute, token by token in plain torch; slow."""

import torch

from hocket.policies.kernels import UNBOUNDED


def _turned(x, weight, epsilon, cosine, sine):
    """Queries or keys `[heads, D]` of one token, normalised and rotated."""
    if weight is not None:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight
    return x * cosine + x.roll(x.shape[-1] // 2, -1) * sine


def paged_attention(
    qkv,
    keys,
    values,
    *,
    position,
    slot,
    table,
    run_start,
    run_row,
    weight,
    epsilon,
    cosine,
    sine,
    scale,
    heads,
    shared,
    bounds=UNBOUNDED,
    sums=None,
):
    assert sums is None
    size = cosine.shape[1]
    parts = qkv.float().view(len(qkv), heads + 2 * shared, size)
    queries = {}
    for token in range(len(qkv)):
        if slot[token] < 0:
            continue
        page, lane = divmod(int(slot[token]), 16)
        at = int(position[token])
        turned = _turned(parts[token, : heads + shared], weight, epsilon, cosine[at], sine[at])
        queries[token] = turned[:heads]
        keys[page, :, :, lane] = turned[heads:].to(keys.dtype)
        values[page, :, lane] = parts[token, heads + shared :].to(values.dtype)
    out = torch.zeros(len(qkv), heads, size)
    for run, row in enumerate(run_row.tolist()):
        pages = table[row].long()
        for token in range(int(run_start[run]), int(run_start[run + 1])):
            if token not in queries:
                continue
            seen = int(position[token]) + 1
            used = pages[: -(-seen // 16)]
            k = keys[used].float().permute(1, 2, 0, 3).reshape(shared, size, -1)[:, :, :seen]
            v = values[used].float().transpose(0, 1).reshape(shared, -1, size)[:, :seen]
            q = queries[token].to(qkv.dtype).float().view(shared, -1, size)
            scores = q @ k * scale
            if bounds.cap:
                scores = bounds.cap * torch.tanh(scores / bounds.cap)
            if bounds.window:
                scores[..., : max(0, seen - bounds.window)] = -torch.inf
            if bounds.sinks is not None:
                scores = torch.cat((scores, bounds.sinks.view(shared, -1, 1)), -1)
            out[token] = (torch.softmax(scores, -1)[..., :seen] @ v).reshape(heads, size)
    return out.view(len(qkv), -1).to(qkv.dtype)


def draw(logits, uniform, temperature, greedy, forced):
    plain = torch.log_softmax(logits / torch.where(greedy, 1.0, temperature)[:, None], 1)
    cumulative = torch.cumsum(plain.exp().double(), 1)
    token = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:]).squeeze(1)
    token = torch.where(greedy, logits.argmax(1), token)
    token = torch.where(forced >= 0, forced, token)
    return token, plain.gather(1, token[:, None]).squeeze(1)

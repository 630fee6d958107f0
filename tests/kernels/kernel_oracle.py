"""What the kernels should find, in float64 straight from the formulas, and random inputs for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.policies.kernels import TreePaths

TYPES = (torch.float32, torch.bfloat16)
ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
"""The largest relative error of rounding a number to the type: half a unit in the last of 24 or 8 digits."""

NOISE = 2e-6
"""fp32 arithmetic: some dozens of roundings of 6e-8, relative to the largest numbers that are added."""


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    """Normal numbers; in bf16 the reference reads the rounded ones, so that rounding inputs is no error."""
    return torch.from_numpy(Key.of(seed).numpy().normal(size=shape) * scale).to(dtype)


def assert_close(found: Tensor, due: Tensor, scale: Tensor | float = 1.0, noise: float = NOISE) -> None:
    """|found - due| <= one rounding of the result to its type + fp32 noise relative to `scale`."""
    assert found.shape == due.shape
    bound = ROUNDING[found.dtype] * 1.01 * due.abs() + noise * torch.as_tensor(scale, dtype=torch.float64)
    worst = float(((found.double() - due).abs() / bound).max()) if due.numel() else 0.0
    assert worst <= 1, f"{worst:.3g} times the bound"


def same(one: Tensor, other: Tensor) -> bool:
    """Equal bits (not a number included)."""
    whole = torch.int16 if one.dtype is torch.bfloat16 else torch.int32
    return one.dtype is other.dtype and torch.equal(one.contiguous().view(whole), other.contiguous().view(whole))


def whole_numbers(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- layers


def rms_normal(x: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) and 1 / sqrt(...)."""
    inverse = (x.square().mean(-1) + epsilon).rsqrt()
    return x * inverse[..., None], inverse


def rotary_tables(positions: int, size: int, base: float = 100.0) -> tuple[Tensor, Tensor]:
    """Cosines, and sines with the sign of the rotated half, `[P, D]` fp32."""
    half = size // 2
    angle = torch.arange(positions)[:, None].double() * base ** (-torch.arange(half).double() / half)
    return torch.cat((angle.cos(), angle.cos()), -1).float(), torch.cat((-angle.sin(), angle.sin()), -1).float()


def turned(
    qkv: Tensor,
    weight: Tensor | None,
    cosine: Tensor,
    sine: Tensor,
    depth: Tensor,
    epsilon: float,
    shared: int,
) -> tuple[Tensor, Tensor]:
    """Queries and keys, normalised where there is a weight, and turned, `[M, H + S, D]`, and 1 / RMS `[M, H + S]`."""
    size = cosine.shape[1]
    heads = qkv.shape[1] // size - 2 * shared
    x = qkv.double().unflatten(1, (-1, size))[:, : heads + shared]
    normal, inverse = rms_normal(x, epsilon)
    y = x if weight is None else normal * weight.double()
    swapped = torch.cat((y[..., size // 2 :], y[..., : size // 2]), -1)
    at = depth.long()
    return y * cosine.double()[at][:, None] + swapped * sine.double()[at][:, None], inverse


# ---------------------------------------------------------------- attention along trees


@dataclass(frozen=True)
class Forest:
    """A random forest. Node n owns tokens start[n] .. start[n] + own[n] - 1; all tokens are owned once."""

    parent: list[int]
    start: list[int]
    own: list[int]

    @property
    def tokens(self) -> int:
        return sum(self.own)

    def chain(self, node: int) -> list[int]:
        """Nodes from the root to `node`."""
        above = [node]
        while self.parent[above[0]] >= 0:
            above.insert(0, self.parent[above[0]])
        return above

    def path(self, node: int) -> list[int]:
        """Flat places of all that the node's last token sees, in order."""
        return [self.start[n] + i for n in self.chain(node) for i in range(self.own[n])]

    @property
    def leaves(self) -> list[int]:
        return [node for node in range(len(self.parent)) if node not in self.parent]

    def visible(self) -> Tensor:
        """Which tokens each token attends to, `[M, M]`."""
        seen = torch.zeros(self.tokens, self.tokens, dtype=torch.bool)
        for node in range(len(self.parent)):
            path = self.path(node)
            for i in range(self.own[node]):
                seen[self.start[node] + i, path[: len(path) - self.own[node] + i + 1]] = True
        return seen

    def depth(self) -> Tensor:
        return (self.visible().sum(1) - 1).int()

    def paths(self, seed: int = 0, *, cut: bool = False) -> TreePaths:
        """A piece per node of the chain; with `cut` the pieces above a node's own are cut further at random."""
        draw = Key.of(seed).numpy()
        piece, begin, length = [0], [], []
        for node in range(len(self.parent)):
            for link in self.chain(node):
                ends = [self.own[link]]
                if cut and link != node:
                    ends = sorted({int(draw.integers(1, self.own[link] + 1)), self.own[link]})
                for first, last in zip([0, *ends], ends, strict=False):
                    begin.append(self.start[link] + first)
                    length.append(last - first)
            piece.append(len(begin))
        return TreePaths(*map(whole_numbers, (self.start, self.own, piece, begin, length)))


def forest(seed: int, nodes: int, longest: int, *, deep: bool = False, shuffled: bool = True) -> Forest:
    """Nodes of 1 to `longest` tokens, many of one; `deep` makes long chains. Places of nodes are in random order."""
    draw = Key.of(seed).numpy()
    parent = [-1]
    for number in range(1, nodes):
        root = draw.random() < 0.15 and not deep
        parent.append(-1 if root else number - 1 if deep and draw.random() < 0.9 else int(draw.integers(number)))
    own = [1 if draw.random() < 0.3 else int(draw.integers(1, longest + 1)) for _ in parent]
    order = draw.permutation(nodes) if shuffled else np.arange(nodes)
    start = np.zeros(nodes, np.int64)
    start[order] = np.concatenate([[0], np.cumsum(np.array(own)[order])[:-1]])
    return Forest(parent, start.tolist(), own)


def attention(qk: Tensor, values: Tensor, visible: Tensor, scale: float, shared: int) -> tuple[Tensor, Tensor]:
    """softmax(scale q k) v over the visible tokens, `[M, H, D]`, and log-sums of scores `[M, H]`.

    Query heads follow one another in groups of equal size, a group for each key head.
    """
    heads = qk.shape[1] - shared
    queries = qk[:, :heads].double()
    keys = qk[:, heads:].double().repeat_interleave(heads // shared, 1)
    scores = scale * torch.einsum("ihd,jhd->hij", queries, keys)
    scores = scores.masked_fill(~visible, -torch.inf)
    sums = scores.logsumexp(-1)
    mixed = torch.einsum("hij,jhd->ihd", (scores - sums[..., None]).exp(), values.repeat_interleave(heads // shared, 1))
    return mixed, sums.T


@dataclass(frozen=True)
class Heads:
    """H query heads and S key heads of D numbers."""

    repeat: int
    shared: int
    size: int

    @property
    def count(self) -> int:
        return self.repeat * self.shared

    @property
    def width(self) -> int:
        return (self.count + 2 * self.shared) * self.size

    def parts(self, qkv: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys `[M, H + S, D]`, values `[M, S, D]`."""
        split = qkv.unflatten(1, (-1, self.size))
        return split[:, : self.count + self.shared], split[:, self.count + self.shared :]


# ---------------------------------------------------------------- choices


def logits_of(
    seed: int,
    rows: int,
    vocabulary: int,
    dtype: torch.dtype = torch.float32,
    scale: float = 3.0,
    banned: float = 0.0,
) -> Tensor:
    """Random logits, some of them -inf; one of each row is not."""
    draw = Key.of(seed).derive("banned").numpy()
    logits = drawn(seed, rows, vocabulary, dtype=dtype, scale=scale)
    out = torch.from_numpy(draw.random((rows, vocabulary)) < banned)
    out[torch.arange(rows), torch.from_numpy(draw.integers(0, vocabulary, rows))] = False
    return logits.masked_fill(out, -torch.inf)


def softmax_facts(logits: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of softmax(logits / temperature): log-probs `[K, V]`, largest score, sum of e^(score - it), entropy."""
    z = logits.double() / temperature.double()[:, None]
    peak = z.max(1).values
    total = (z - peak[:, None]).exp().sum(1)
    logp = z - peak[:, None] - total.log()[:, None]
    entropy = -(logp.exp() * logp.masked_fill(logp.isneginf(), 0.0)).sum(1)
    return logp, peak, total, entropy


def softmax_gradient(logits: Tensor, action: Tensor, temperature: Tensor, g: Tensor, h: Tensor | None) -> Tensor:
    """d(sum g logp[action] + sum h entropy) / dlogits, float64; a logit of -inf gets 0 unless it is the action."""
    logp, _, _, entropy = softmax_facts(logits, temperature)
    p = logp.exp()
    one = torch.zeros_like(p).scatter(1, action[:, None], 1.0)
    gradient = g.double()[:, None] * (one - p)
    if h is not None:
        gradient = gradient - h.double()[:, None] * p * (logp.masked_fill(logp.isneginf(), 0.0) + entropy[:, None])
    return gradient / temperature.double()[:, None]


def inverse_cdf(logits: Tensor, uniform: Tensor, temperature: Tensor) -> Tensor:
    """The first token whose cumulative probability reaches the uniform, `[R]`, by plain float64 sums."""
    cumulative = softmax_facts(logits, temperature)[0].exp().cumsum(1)
    return (cumulative < uniform[:, None]).sum(1).clamp(max=logits.shape[1] - 1)


def subsets(seed: int, rows: int) -> Sequence[Tensor]:
    """Some choices of rows: one alone, some in another order."""
    draw = Key.of(seed).numpy()
    return [torch.from_numpy(draw.permutation(rows)[:count].copy()) for count in {1, min(3, rows), rows}]

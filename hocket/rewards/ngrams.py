"""Texts as vectors: counts of hashed character n-grams, equal on every machine."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

Orders = tuple[int, ...]


@functools.lru_cache(maxsize=65536)
def places(text: str, buckets: int, orders: Orders) -> tuple[int, ...]:
    """The bucket of every n-gram of a text, spaces at both ends included (CRC-32 modulo `buckets`)."""
    padded = f" {text} "
    grams = (padded[at : at + order] for order in orders for at in range(len(padded) - order + 1))
    return tuple(zlib.crc32(gram.encode("utf-8", "surrogatepass")) % buckets for gram in grams)


def counts(texts: Sequence[str], *, buckets: int = 512, orders: Orders = (1, 2, 3)) -> Tensor:
    """How often each bucket is hit by each text, `[M, buckets]` float64."""
    table = torch.zeros(len(texts), buckets, dtype=torch.float64)
    for row, text in enumerate(texts):
        hits = places(text, buckets, orders)
        table[row].index_add_(0, torch.tensor(hits, dtype=torch.long), torch.ones(len(hits), dtype=torch.float64))
    return table


def unit(vectors: Tensor) -> Tensor:
    """Rows at length 1; a zero row stays zero."""
    length = vectors.norm(dim=-1, keepdim=True)
    return torch.where(length > 0, vectors / length.clamp(min=1e-300), vectors)

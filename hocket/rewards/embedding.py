"""Embeddings of texts: the recorded ones, else n-gram counts without a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import EMBEDDING, TEXT
from hocket.core.errors import ConfigurationError
from hocket.rewards.ngrams import counts, unit

BUCKETS, ORDERS = 1024, (2, 3)


def text_vectors(texts: Sequence[str]) -> Tensor:
    """`e = c / |c|`, c counting the character bigrams and trigrams of a text in hashed buckets, `[M, D]` float64.

    White space and case are levelled. Counts are not negative, so cosines lie in [0, 1]; equal texts have 1. Even an
    empty text has a vector.
    """
    return unit(counts([" ".join(text.lower().split()) for text in texts], buckets=BUCKETS, orders=ORDERS))


def embeddings(batch: Batch, reader: str) -> Tensor:
    """A unit vector per trajectory, `[N, D]` float64: the column `embedding` where all have one, else of `text`.

    Raises:
        ConfigurationError: when recorded embeddings differ in length or have none.
    """
    recorded = EMBEDDING.get(batch)
    if recorded is None or any(vector is None for vector in recorded):
        return text_vectors([text or "" for text in TEXT.read(batch, reader)])
    if len({len(vector) for vector in recorded}) > 1:
        raise ConfigurationError(f"{reader} compares embeddings, which must all have one length")
    vectors = unit(torch.tensor([list(vector) for vector in recorded], dtype=torch.float64))
    if not bool((vectors.norm(dim=-1) > 0).all()):
        raise ConfigurationError(f"{reader} compares directions of embeddings, and one of them is the null vector")
    return vectors

"""Search by embeddings: articles by the cosine of their vectors to a query's, alone or mixed with BM25."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hocket.agents.tools.corpus import Document
from hocket.agents.tools.search import Index
from hocket.core.cache import cache_folder
from hocket.core.errors import ConfigurationError

Rank = Literal["words", "embedding", "both"]
"""What orders what is found: BM25, the cosine of vectors, or the ranks in both orders."""

DAMPED = 60
"""What is added to a rank before it is inverted, as in reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)."""

TOGETHER = 256
"""Articles that are embedded in one call."""

REMEMBERED = 4096
"""Queries whose vectors are held."""

_DIGITS = 6
"""Of a cosine; beyond them equal articles may differ by the order in which a product is summed."""


@dataclass(frozen=True)
class Encoder:
    """What gives texts their vectors.

    Attributes:
        name: for messages. embed: texts to vectors `[M, D]`, one for each.
        identity: tells what its vectors depend on besides the texts. Those of articles are kept under it from one run
            to the next; None keeps none.
        outside: whether it may answer otherwise another time, so that a run keeps what was found.
    """

    name: str
    embed: Callable[[list[str]], NDArray[np.floating]]
    identity: str | None = None
    outside: bool = False


class EmbeddedIndex(Index):
    """Articles by the vectors of their titles and texts. Equal scores keep the order of the documents.

    Args:
        rank: `embedding`, or `both` for reciprocal rank fusion: a document is worth the sum over the two orders of
            `1 / (60 + its rank in it)`, from 1; BM25 ranks those alone that hold a word of the query.
        encoder: gives the vectors. A run gives its own when it starts (`seat`).

    Raises:
        ConfigurationError: as `Index`, and for another rank.
    """

    about = "Articles that are nearest to a query, best first."

    def __init__(self, documents: Sequence[Document], rank: Rank = "embedding", encoder: Encoder | None = None) -> None:
        super().__init__(documents)
        if rank not in get_args(Rank)[1:]:
            raise ConfigurationError(f"an index of vectors ranks by embedding or both, not {rank!r}")
        self.rank = rank
        self._vectors: NDArray[np.float32] | None = None
        self._queries: dict[str, NDArray[np.float32]] = {}
        self._encoder = encoder

    @property
    def outside(self) -> bool:
        """Whether what is found may be otherwise another time."""
        return self._encoder is not None and self._encoder.outside

    def seat(self, encoder: Encoder) -> None:
        """Takes vectors of this encoder from now on, those of the articles at once.

        Raises:
            ConfigurationError: when it does not give a vector for each.
        """
        self._encoder, self._queries = encoder, {}
        self._vectors = self._of_articles(encoder)

    def nearness(self, query: str) -> NDArray[np.float64]:
        """The cosine of the query's vector and each document's, `[D]`, to six digits; 0 for a null vector.

        Raises:
            ConfigurationError: when there is no encoder, or its vectors do not go together.
        """
        if self._encoder is None:
            raise ConfigurationError("search by embedding has nothing to embed with; train with it, or give an encoder")
        if self._vectors is None:
            self._vectors = self._of_articles(self._encoder)
        if query not in self._queries:
            # One at a time, so that what a query finds does not depend on what is asked beside it.
            if len(self._queries) >= REMEMBERED:
                self._queries.clear()
            self._queries[query] = _embedded(self._encoder, [query])[0]
        vector, width = self._queries[query], self._vectors.shape[1]
        if len(vector) != width:
            raise ConfigurationError(
                f"embedder {self._encoder.name} gave a query {len(vector)} numbers and articles {width}; return "
                "vectors of one length"
            )
        cosines = np.round((self._vectors @ vector).astype(np.float64), _DIGITS)
        return np.asarray(cosines, np.float64)

    def find(self, query: str, top: int) -> tuple[Document, ...]:
        """The best documents, at most `top`."""
        worth = self.nearness(query)
        if self.rank == "both":
            word_scores = self.scores(query).astype(np.float64)
            worth = _inverted(worth) + np.where(word_scores > 0, _inverted(word_scores), 0.0)
        return tuple(self.documents[place] for place in np.argsort(-worth, kind="stable")[:top].tolist())

    def _of_articles(self, encoder: Encoder) -> NDArray[np.float32]:
        texts = [f"{document.title}: {document.text}" for document in self.documents]
        if encoder.identity is None:
            return _embedded(encoder, texts)
        digest = hashlib.blake2b(repr((encoder.identity, texts)).encode("utf-8", "surrogatepass"), digest_size=16)
        file = cache_folder("vectors") / f"{digest.hexdigest()}.npy"
        vectors = _read(file)
        if vectors is None or len(vectors) != len(texts):
            vectors = _embedded(encoder, texts)
            _keep(file, vectors)
        return vectors


def _embedded(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of texts, of length 1, `[M, D]`."""
    parts = [encoder.embed(list(texts[first : first + TOGETHER])) for first in range(0, len(texts), TOGETHER)]
    if len({part.shape[1:] for part in parts}) > 1:
        raise ConfigurationError(
            f"embedder {encoder.name} gave vectors of different lengths; return them of one length"
        )
    vectors = np.concatenate(parts).astype(np.float64)
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norm > 0, norm, 1.0)).astype(np.float32)


def _inverted(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """`1 / (60 + rank)` by falling score, from rank 1."""
    inverse = np.empty(len(scores))
    inverse[np.argsort(-scores, kind="stable")] = 1.0 / (DAMPED + np.arange(1, len(scores) + 1))
    return inverse


def _read(file: Path) -> NDArray[np.float32] | None:
    """What was kept; None where nothing was, or something else."""
    try:
        vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return vectors if vectors.ndim == 2 and vectors.dtype == np.float32 else None


def _keep(file: Path, vectors: NDArray[np.float32]) -> None:
    """Writes vectors for the next time, whole or not at all; where nothing can be written they are made again."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.stem}.{os.getpid()}.part.npy")
        np.save(part, vectors)
        part.replace(file)

"""Which entries of a library a question calls up: by BM25, by what entries are worth, by both, or by a reranker.

One facility for lessons, skills and scored variants; what is shown is a version of the texts with fewer entries.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hocket.agents.tools.corpus import Document
from hocket.agents.tools.search import Index, words
from hocket.core.subsets import best
from hocket.core.texts import Recall, Texts, about


def scores(recall: Recall, question: str, entries: Sequence[str]) -> NDArray[np.float64]:
    """`nearness * BM25 + worth` of every entry, `[n]`, in the scale of `hocket.core.subsets`."""
    worth = np.array([recall.worth.get(entry, 0.0) for entry in entries], np.float64)
    if not recall.nearness or not entries:
        return worth
    return worth + recall.nearness * _index(tuple(entries)).scores(question).astype(np.float64)


@functools.lru_cache(maxsize=8)
def _index(entries: tuple[str, ...]) -> Index:
    return Index([Document(str(number), entry) for number, entry in enumerate(entries)])


@functools.lru_cache(maxsize=65536)
def _buckets(text: str, buckets: int) -> tuple[int, ...]:
    return tuple(zlib.crc32(word.encode("utf-8", "surrogatepass")) % buckets for word in words(text))


def vectors(texts: Sequence[str], buckets: int) -> NDArray[np.float64]:
    """How often each bucket is hit by the words of each text (CRC-32 modulo `buckets`), at length 1, `[M, D]`."""
    table = np.zeros((len(texts), buckets))
    for row, text in enumerate(texts):
        np.add.at(table[row], list(_buckets(text, buckets)), 1.0)
    length = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(length > 0, length, 1.0), np.float64)


def candidates(recall: Recall, question: str, entries: Sequence[str]) -> tuple[int, ...]:
    """The places of the entries that a reranker chooses among, the highest score first."""
    return best(scores(recall, question, entries), recall.among)


def reranked(recall: Recall, question: str, entries: Sequence[str]) -> tuple[int, ...]:
    """The places of the entries that a reranker shows, its first choice first."""
    places = candidates(recall, question, entries)
    embedded = vectors([question, *(entries[place] for place in places)], len(recall.learnt))
    nearness = embedded[1:] @ (embedded[0] + np.array(recall.learnt, np.float64).T @ embedded[0])
    return tuple(places[place] for place in best(nearness, recall.top))


def called_up(recall: Recall, question: str, entries: Sequence[str]) -> tuple[int, ...]:
    """The places of the entries that are shown, in order."""
    if len(entries) <= recall.top:
        return tuple(range(len(entries)))
    if recall.learnt:
        return tuple(sorted(reranked(recall, question, entries)))
    return tuple(sorted(best(scores(recall, question, entries), recall.top)))


def recalled(texts: Texts, question: str) -> Texts:
    """The texts with the lessons and skills that the question calls up; themselves where they have no `recall`."""
    if texts.recall is None:
        return texts
    lessons = [texts.library[place] for place in called_up(texts.recall, question, texts.library)]
    if texts.skills is None:
        return replace(texts, library=tuple(lessons))
    names = list(texts.skills)
    listed = [f"{name}: {about(texts.skills[name])}" for name in names]
    chosen = [names[place] for place in called_up(texts.recall, question, listed)]
    return replace(texts, library=tuple(lessons), skills={name: texts.skills[name] for name in chosen})

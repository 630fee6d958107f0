"""Which entries of a library a question calls up: by BM25, by what entries are worth, or by both.

One facility for lessons, skills and scored variants; what is shown is a version of the texts with fewer entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hocket.core.subsets import best
from hocket.core.texts import Recall, Texts, about
from hocket.tools.corpus import Document
from hocket.tools.search import Index


def scores(recall: Recall, question: str, entries: Sequence[str]) -> NDArray[np.float64]:
    """`nearness * BM25 + worth` of every entry, `[n]`, in the scale of `hocket.core.subsets`."""
    worth = np.array([recall.worth.get(entry, 0.0) for entry in entries], np.float64)
    if not recall.nearness or not entries:
        return worth
    index = Index([Document(str(number), entry) for number, entry in enumerate(entries)])
    return worth + recall.nearness * index.scores(question).astype(np.float64)


def called_up(recall: Recall, question: str, entries: Sequence[str]) -> tuple[int, ...]:
    """The places of the entries that are shown, in order."""
    if len(entries) <= recall.top:
        return tuple(range(len(entries)))
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
    kept = [names[place] for place in called_up(texts.recall, question, listed)]
    return replace(texts, library=tuple(lessons), skills={name: texts.skills[name] for name in kept})

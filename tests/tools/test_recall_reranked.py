"""A reranker in the texts: which of the entries that BM25 finds are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hocket.agents.tools.recall import called_up, candidates, recalled, reranked, vectors
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.texts import Recall, Texts

ENTRIES = tuple(f"the {shade} {thing}" for thing in ("door", "lamp", "boat") for shade in ("red", "blue", "green"))


def learnt(buckets: int = 16) -> tuple[tuple[float, ...], ...]:
    rows: list[list[float]] = Key.of(0).numpy().normal(size=(buckets, buckets)).tolist()
    return tuple(map(tuple, rows))


def test_a_vector_counts_words_in_buckets_at_length_one() -> None:
    found = vectors(["red Red door", "door, red: red", "", "lamp"], 16)
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 0, 1])
    assert np.array_equal(found[0], found[1])
    assert sorted(found[0][found[0] > 0]) == pytest.approx([1 / 5**0.5, 2 / 5**0.5])


def test_the_order_is_that_of_the_bilinear_form_among_what_bm25_finds() -> None:
    recall = Recall(2, among=4, learnt=learnt())
    there = candidates(recall, "a door, or a boat that is red", ENTRIES)
    assert len(there) == 4
    question, *entries = vectors(["a door, or a boat that is red", *ENTRIES], 16).tolist()

    def worth(entry: list[float]) -> float:
        rows = enumerate(recall.learnt)
        moved = sum(question[i] * row[j] * entry[j] for i, row in rows for j in range(16))
        return moved + sum(one * other for one, other in zip(question, entry, strict=True))

    wanted = sorted(there, key=lambda place: -worth(entries[place]))[:2]
    assert list(reranked(recall, "a door, or a boat that is red", ENTRIES)) == wanted
    assert called_up(recall, "a door, or a boat that is red", ENTRIES) == tuple(sorted(wanted))
    shown = recalled(Texts(library=ENTRIES, recall=recall), "a door, or a boat that is red")
    assert shown.library == tuple(ENTRIES[place] for place in sorted(wanted))


def test_a_reranker_is_written_and_read_as_it_is_and_told_among_the_changes() -> None:
    texts = Texts(library=ENTRIES, recall=Recall(2, among=4, learnt=learnt()))
    assert Texts.from_json(texts.to_json()) == texts
    plain = Texts(library=ENTRIES, recall=Recall(2, among=4))
    assert "learnt" not in plain.to_json()["recall"]
    assert any("reranker of 16 buckets" in line for line in texts.changes(plain))


@pytest.mark.parametrize(
    ("recall", "why"),
    [
        ({"top": 3, "among": 2, "learnt": [[1.0]]}, "rerank at least the 3"),
        ({"top": 1, "learnt": [[1.0, 2.0]]}, "no square matrix"),
        ({"top": 1, "learnt": [["one"]]}, "rows of numbers"),
        ({"top": 1, "learnt": [1.0]}, "rows of numbers"),
        ({"top": 1, "lernt": []}, "did you mean 'learnt'"),
    ],
)
def test_rerankers_that_are_none_are_refused_in_a_sentence(recall: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Texts.from_json({"recall": recall})

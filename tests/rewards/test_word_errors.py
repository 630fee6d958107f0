"""Word errors against a search over all alignments."""

from __future__ import annotations

from functools import cache

import numpy as np

from hocket.rewards.word_errors import Errors, errors, word_errors


def least(reference: tuple[int, ...], transcript: tuple[int, ...]) -> set[tuple[int, int, int]]:
    """Substitutions, deletions and insertions of all alignments with the fewest edits."""

    @cache
    def ways(i: int, j: int) -> frozenset[tuple[int, int, int]]:
        if i == j == 0:
            return frozenset({(0, 0, 0)})
        found = set()
        if i and j:
            wrong = int(reference[i - 1] != transcript[j - 1])
            found |= {(s + wrong, d, n) for s, d, n in ways(i - 1, j - 1)}
        if i:
            found |= {(s, d + 1, n) for s, d, n in ways(i - 1, j)}
        if j:
            found |= {(s, d, n + 1) for s, d, n in ways(i, j - 1)}
        return frozenset(found)

    every = ways(len(reference), len(transcript))
    fewest = min(map(sum, every))
    return {way for way in every if sum(way) == fewest}


def test_the_fewest_edits_of_all_alignments() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        one, other = (tuple(rng.integers(0, 3, int(rng.integers(0, 6))).tolist()) for _ in range(2))
        found, ways = errors(one, other), least(one, other)
        assert (found.substitutions, found.deletions, found.insertions) in ways
        assert found.deletions + found.insertions == min(d + n for _, d, n in ways)
        assert found.length == len(one)


def test_rates() -> None:
    assert word_errors("do re mi", "do  mi la la") == Errors(2, 0, 1, 3)
    assert word_errors("do re mi", "").rate == 1.0
    assert word_errors("do", "do re mi fa").rate == 3.0
    assert (word_errors("", "").rate, word_errors("", "do re").rate) == (0.0, 1.0)

"""Similarity of two texts, in [0, 1]; 1 for equal texts."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hocket.core.errors import ConfigurationError


def exact(one: str, other: str) -> float:
    """1 if both texts are the same up to white space, else 0."""
    return float(one.split() == other.split())


def rouge_1(one: str, other: str) -> float:
    """F1 of the words two texts share (ROUGE-1, Lin 2004)."""
    left, right = words_of(one), words_of(other)
    return _f1(sum((Counter(left) & Counter(right)).values()), len(left), len(right))


def rouge_l(one: str, other: str) -> float:
    """F1 of the longest common subsequence of words (ROUGE-L, Lin 2004)."""
    left, right = words_of(one), words_of(other)
    row = [0] * (len(right) + 1)
    for word in left:
        diagonal = 0
        for place, candidate in enumerate(right, start=1):
            best = diagonal + 1 if word == candidate else max(row[place], row[place - 1])
            diagonal, row[place] = row[place], best
    return _f1(row[-1], len(left), len(right))


def _f1(shared: int, left: int, right: int) -> float:
    """`2 shared / (left + right)`; two empty texts are alike."""
    return 2 * shared / (left + right) if left + right else 1.0


@functools.lru_cache(maxsize=65536)
def bleu(one: str, other: str, *, effective_order: bool = True) -> float:
    """Sentence BLEU of `one` against `other` by `sacrebleu`, divided by 100.

    With `effective_order` n-grams longer than the text are left out; without it, two equal texts of fewer than four
    words score below 1. Two empty texts are alike.

    Raises:
        ConfigurationError: without `sacrebleu`.
    """
    if not one.strip() and not other.strip():
        return 1.0
    return min(1.0, float(_scorer(effective_order).sentence_score(one, [other]).score) / 100)


@functools.cache
def _scorer(effective_order: bool) -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise ConfigurationError(
            "BLEU is counted by sacrebleu, which is not installed; install hocket[similarity] or set similarity to "
            "rouge-l"
        ) from None
    return BLEU(effective_order=effective_order)


SIMILARITIES: Mapping[str, Callable[[str, str], float]] = {
    "bleu": bleu,
    "rouge-l": rouge_l,
    "rouge-1": rouge_1,
    "exact": exact,
}


_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Words and numbers in lower case."""
    return _WORD.findall(text.lower())

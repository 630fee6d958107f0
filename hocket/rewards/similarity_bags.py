"""Graded answers: bags of tokens that resemble each other, boxes that overlap, numbers that nearly agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from hocket.rewards.ngrams import counts, unit
from hocket.rewards.verifiers import last_number

Embedding = Callable[[Sequence[str]], Tensor]
"""A vector per token, `[M, D]`."""

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1."""

_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")


def max_average(similarity: Tensor) -> float:
    """`(mean_i max_j S_ij + mean_j max_i S_ij) / 2` of a similarity matrix `[M, N]`: BMAS (Mixed-R1, arXiv 2505.24164).

    0 when one side is empty.
    """
    if 0 in similarity.shape:
        return 0.0
    return float((similarity.max(1).values.mean() + similarity.max(0).values.mean()) / 2)


def spelling(tokens: Sequence[str]) -> Tensor:
    """Tokens as unit vectors of their hashed character n-grams: alike when spelt alike. `[M, 256]` float64."""
    return unit(counts(tokens, buckets=256, orders=(1, 2, 3)))


def bag_similarity(given: str, reference: str, embed: Embedding = spelling) -> float:
    """BMAS of two texts' words by the cosine of their vectors, in [-1, 1]; two empty texts agree.

    The paper takes the tokenizer's embeddings of the model: give them as `embed`. Lower case and words are chosen here.
    """
    left, right = given.lower().split(), reference.lower().split()
    if not left or not right:
        return float(left == right)
    return max_average(unit(embed(left).double()) @ unit(embed(right).double()).T)


def overlap(first: Box, second: Box) -> float:
    """Intersection over union of two boxes; a box of no area overlaps nothing."""

    def area(box: Box) -> float:
        return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])

    pairs = list(zip(first, second, strict=True))
    common = area((max(pairs[0]), max(pairs[1]), min(pairs[2]), min(pairs[3])))
    union = area(first) + area(second) - common
    return common / union if union > 0 else 0.0


def box_in(said: Any) -> Box | None:
    """A box from four numbers, or from text that holds exactly four."""
    found = [float(number) for number in _NUMBER.findall(said)] if isinstance(said, str) else [float(n) for n in said]
    return (found[0], found[1], found[2], found[3]) if len(found) == 4 else None


def box_overlap(given: str, reference: Any) -> float:
    """Intersection over union of the boxes in a text and a reference; 0 for a text without one."""
    left, right = box_in(given), box_in(reference)
    return overlap(left, right) if left is not None and right is not None else 0.0


def near_number(given: str, reference: Any, tolerance: float = 0.05) -> float:
    """1 if the last number of a text lies within `tolerance` of the reference, relative to it; else 0.

    The tolerance is that of relaxed accuracy for charts (ChartQA, arXiv 2203.10244).
    """
    found = last_number(given)
    if found is None:
        return 0.0
    value, wanted = float(found.replace(",", "")), float(reference)
    return float(abs(value - wanted) <= tolerance * abs(wanted))

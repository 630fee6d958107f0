"""What is said as points, and points as a few kinds: from free-form talk to a finite set of intents."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hocket.keys import Key

_WORD = re.compile(r"\w+")


def embedded(texts: Sequence[str]) -> Tensor:
    """`log(1 + count)` of the words and pairs of neighbouring words of each text, rows at length 1, `[M, D]` float64.

    Case does not count. Columns are the words and pairs of these texts.
    """
    rows = [_counts(text) for text in texts]
    columns = {gram: place for place, gram in enumerate(sorted({gram for row in rows for gram in row}))}
    points = torch.zeros(len(texts), len(columns), dtype=torch.float64)
    for place, row in enumerate(rows):
        for gram, count in row.items():
            points[place, columns[gram]] = math.log1p(count)
    length = points.norm(dim=-1, keepdim=True)
    return torch.where(length > 0, points / length.clamp(min=1e-300), points)


def _counts(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return Counter([*((word,) for word in words), *itertools.pairwise(words)])


def k_means(points: Tensor, clusters: int, key: Key, *, restarts: int = 8, iterations: int = 50) -> list[int]:
    """Lloyd's algorithm from k-means++ seeds (Arthur and Vassilvitskii 2007): the cluster of each point `[M, D]`.

    Of `restarts` runs the one with the least squared distance to centres counts. Clusters are numbered by their first
    points. There are fewer than `clusters` where fewer points differ.
    """
    best: Tensor | None = None
    least = float("inf")
    for restart in range(restarts):
        centres = _seeds(points, clusters, key.derive("restart", restart).numpy())
        nearest = _nearest(points, centres)
        for _ in range(iterations):
            for cluster in range(len(centres)):
                if bool((nearest == cluster).any()):
                    centres[cluster] = points[nearest == cluster].mean(0)
            moved = _nearest(points, centres)
            if torch.equal(moved, nearest):
                break
            nearest = moved
        spread = float((points - centres[nearest]).square().sum())
        if best is None or spread < least - 1e-12:
            best, least = nearest, spread
    assert best is not None
    names: dict[int, int] = {}
    return [names.setdefault(cluster, len(names)) for cluster in best.tolist()]


def _seeds(points: Tensor, clusters: int, rng: np.random.Generator) -> Tensor:
    """Points drawn one after the other by their squared distance to those drawn before."""
    chosen = [int(rng.integers(len(points)))]
    while len(chosen) < clusters:
        far = torch.cdist(points, points[chosen]).min(1).values.square().numpy()
        if far.sum() <= 1e-18:
            break
        chosen.append(int(rng.choice(len(points), p=far / far.sum())))
    return points[chosen].clone()


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return torch.cdist(points, centres).argmin(1)


def adjusted_rand(left: Sequence[int], right: Sequence[int]) -> float:
    """How far two partitions agree beyond chance (Hubert and Arabie 1985): 1 for the same, about 0 for unrelated."""

    def within(counts: Counter[tuple[int, ...]]) -> float:
        return sum(count * (count - 1) / 2 for count in counts.values())

    both = within(Counter(zip(left, right, strict=True)))
    one, other = (within(Counter((label,) for label in side)) for side in (left, right))
    every = len(left) * (len(left) - 1) / 2
    expected, most = one * other / every if every else 0.0, (one + other) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)

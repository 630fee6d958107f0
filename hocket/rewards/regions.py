"""Boxes, points and intervals that answers name, and how well they fit the true ones.

Coordinates are numbers in the space that the task states. A box is `x0, y0, x1, y1` with `x0 < x1` and `y0 < y1`;
one of no area overlaps nothing. An interval ends where it is no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from hocket.core.numerals import listed

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Interval = tuple[float, float]
Thing = TypeVar("Thing")


def area(box: Box) -> float:
    """The area of a box; 0 of one that ends before it begins."""
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def box_overlap(item: Box, other: Box) -> float:
    """Intersection over union, in [0, 1]."""
    (a, b, c, d), (e, f, g, h) = item, other
    common = area((max(a, e), max(b, f), min(c, g), min(d, h)))
    union = area(item) + area(other) - common
    return common / union if union > 0 else 0.0


def inside(point: Point, box: Box) -> bool:
    """Whether a point lies in a box, its left and upper edges included."""
    return box[0] <= point[0] < box[2] and box[1] <= point[1] < box[3]


def merged(intervals: Sequence[Interval]) -> list[Interval]:
    """The union of intervals as intervals apart, in order; those without length are left out."""
    parts: list[Interval] = []
    for start, end in sorted(item for item in intervals if item[0] < item[1]):
        if parts and start <= parts[-1][1]:
            parts[-1] = (parts[-1][0], max(parts[-1][1], end))
        else:
            parts.append((start, end))
    return parts


def interval_overlap(some: Sequence[Interval], others: Sequence[Interval]) -> float:
    """Intersection over union of two sets of intervals, in [0, 1]; 0 where either has no length.

    The code of VideoChat-R1 (arXiv 2504.06958) gives 1 to two sets without any length. Here an empty answer earns
    nothing.
    """
    left, right = merged(some), merged(others)
    common = sum(max(0.0, min(b, d) - max(a, c)) for a, b in left for c, d in right)
    union = sum(end - start for start, end in (*left, *right)) - common
    return common / union if union > 0 else 0.0


def box_of(text: str | None) -> Box | None:
    """The box of a text that holds exactly four numbers."""
    numbers = listed(text or "")
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else None


def point_of(text: str | None) -> Point | None:
    """The point of a text that holds exactly two numbers."""
    numbers = listed(text or "")
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def distance(item: Point, other: Point) -> float:
    """The Euclidean distance."""
    return math.hypot(item[0] - other[0], item[1] - other[1])


def matched(ours: Sequence[Thing], theirs: Sequence[Thing], score: Callable[[Thing, Thing], float]) -> float:
    """The sum of scores of the best one-to-one matching, by the Hungarian method of scipy.

    Raises:
        ImportError: without scipy.
    """
    if not ours or not theirs:
        return 0.0
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    table = np.array([[score(item, other) for other in theirs] for item in ours], dtype=np.float64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum())

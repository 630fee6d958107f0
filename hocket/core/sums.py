"""Sums, means and deviations of numbers of any size: what no float can hold is infinite, and never an error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_DOWN = 2.0**-600
"""A power of two, so that scaling loses no digit of what is large."""


def total(values: Iterable[float]) -> float:
    """The exactly rounded sum; NaN where infinities of both signs meet."""
    terms = list(values)
    try:
        return math.fsum(terms)
    except OverflowError:
        return math.fsum(value * _DOWN for value in terms) / _DOWN
    except ValueError:
        return math.nan


def mean(values: Sequence[float]) -> float:
    """Their mean, finite where they are; NaN of none."""
    if not values:
        return math.nan
    summed = total(values)
    if math.isinf(summed) and all(map(math.isfinite, values)):
        return math.fsum(value * _DOWN for value in values) / len(values) / _DOWN
    return summed / len(values)


def deviation(values: Sequence[float], centre: float, freedom: float) -> float:
    """`sqrt(sum (value - centre)^2 / freedom)`."""
    try:
        return math.sqrt(total((value - centre) ** 2 for value in values) / freedom)
    except OverflowError:
        gaps = [value * _DOWN - centre * _DOWN for value in values]
        return math.sqrt(total(gap * gap for gap in gaps) / freedom) / _DOWN

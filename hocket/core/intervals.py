"""95 % confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hocket.core import sums

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""

# 97.5 % quantiles of Student's t distribution by degrees of freedom.
_T95 = {
    1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445, 5: 2.570582, 6: 2.446912, 7: 2.364624, 8: 2.306004,
    9: 2.262157, 10: 2.228139, 11: 2.200985, 12: 2.178813, 13: 2.160369, 14: 2.144787, 15: 2.131450,
    16: 2.119905, 17: 2.109816, 18: 2.100922, 19: 2.093024, 20: 2.085963, 21: 2.079614, 22: 2.073873,
    23: 2.068658, 24: 2.063899, 25: 2.059539, 26: 2.055529, 27: 2.051831, 28: 2.048407, 29: 2.045230, 30: 2.042272,
}  # fmt: skip


def wilson(successes: float, n: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953), 95 % by the usual `z`.

    Never leaves [0, 1] and stays honest at shares near 0 and 1. `successes` may be a sum of partial successes.
    `n` = 0 says nothing: (0, 1).

    Raises:
        ValueError: when `successes` is not in 0 .. n.
    """
    if n == 0:
        return 0.0, 1.0
    if not 0 <= successes <= n + 1e-9:
        raise ValueError(f"{successes} successes out of {n}")
    share, square = min(successes / n, 1.0), z * z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    # At the ends the interval reaches the end exactly; rounding must not keep it from there.
    low = 0.0 if share == 0.0 else max(0.0, centre - half)
    high = 1.0 if share == 1.0 else min(1.0, centre + half)
    return low, high


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's interval of the mean of independent values, 95 %. NaN without values; infinite with one."""
    n = len(values)
    if n == 0:
        return math.nan, math.nan
    mean = sums.mean(values)
    if n == 1:
        return -math.inf, math.inf
    try:
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        half = _t95(n - 1) * math.sqrt(variance / n)
    except OverflowError:
        half = _t95(n - 1) * sums.deviation(values, mean, n - 1) / math.sqrt(n)
    return mean - half, mean + half


def _t95(freedom: int) -> float:
    """The 97.5 % quantile of Student's t; beyond the table by its Cornish-Fisher expansion (error below 1e-5)."""
    if freedom in _T95:
        return _T95[freedom]
    z, v = Z95, float(freedom)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3

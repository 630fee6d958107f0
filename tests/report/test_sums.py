"""Sums, means and deviations of numbers of any size, beside exact fractions."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.apps.report.chart import running_mean, ticks
from hocket.apps.report.groups import group_episodes
from hocket.core import sums
from hocket.core.intervals import mean_interval
from hocket.curriculum.variable import sample_variance
from hocket.rollout.dynamic import total
from hocket.types import Level, Score

NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9)
LARGEST = Fraction(1.7976931348623157e308)


@given(NUMBERS)
def test_they_are_those_of_fractions(numbers: list[float]) -> None:
    exact = sum(map(Fraction, numbers), Fraction())
    found = sums.total(numbers)
    if abs(exact) <= LARGEST:
        assert math.isclose(found, float(exact), rel_tol=1e-15, abs_tol=1e-300)
    else:  # Beyond the largest float by less than half of its last digit, it is that one.
        assert abs(found) in (math.inf, float(LARGEST))
        assert (found > 0) == (exact > 0)
    mean = exact / len(numbers)
    assert math.isclose(sums.mean(numbers), float(mean), rel_tol=1e-15, abs_tol=1e-300)
    gaps = [Fraction(one) - mean for one in numbers]
    square = sum((gap * gap for gap in gaps), Fraction()) / len(numbers)
    with decimal.localcontext(decimal.Context(prec=40, Emin=-9999, Emax=9999)):
        wanted = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
        spread = Decimal(sums.deviation(numbers, sums.mean(numbers), len(numbers)))
        # What cancels is known to the rounding of the mean alone; squares below 1e-300 are no floats.
        near = max(map(abs, numbers)) * 1e-14 + 1e-150
        assert abs(spread - wanted) <= Decimal("1e-9") * wanted + Decimal(near)


def test_of_usual_numbers_they_are_to_the_bit_what_they_were() -> None:
    numbers = [0.1 * n for n in range(40)]
    centre = math.fsum(numbers) / 40
    assert sums.mean(numbers) == centre
    assert sums.deviation(numbers, centre, 39) == math.sqrt(math.fsum((one - centre) ** 2 for one in numbers) / 39)
    assert math.isnan(sums.total([math.inf, -math.inf]))
    assert math.isnan(sums.mean([]))


def test_reports_of_huge_rewards_say_what_is() -> None:
    rows: list[Any] = [{"group": 0, "reward": one, "turns": []} for one in (1e308, 1e308, -1e308, 1e308)]
    (group,) = group_episodes(rows)
    assert group.mean == pytest.approx(5e307)
    assert group.std == pytest.approx(1e308)  # sqrt(((5e307)^2 3 + (1.5e308)^2) / 3)
    low, high = mean_interval([1e308, 1e308, -1e308, 1e308])
    assert low < 0 < high
    assert sample_variance([1e200, -1e200]) == math.inf
    assert total(Score([1e308, 1e308], Level.TURN)) == math.inf
    assert [y for _, y in running_mean([(0, 1e308), (1, 1e308), (2, 1e308)])] == [1e308] * 3
    assert ticks(-1e308, 1e308, 5) == [-1e308]

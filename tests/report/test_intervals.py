import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.intervals import Z95, mean_interval, wilson


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_ends_are_where_the_score_test_just_rejects(case):
    successes, n = case
    share = successes / n
    low, high = wilson(successes, n)
    assert 0 <= low <= share <= high <= 1
    for end, free in ((low, successes > 0), (high, successes < n)):
        if free:
            score = abs(share - end) / math.sqrt(end * (1 - end) / n)
            assert score == pytest.approx(Z95, rel=1e-6)


def test_wilson_at_the_ends_and_without_data():
    # Newcombe (1998), table I: 81 of 263 gives .2553 to .3662.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)
    for bad in (-1, 11):
        with pytest.raises(ValueError, match="out of 10"):
            wilson(bad, 10)


def test_mean_interval_is_students():
    # 2.570582 standard errors for 5 degrees of freedom.
    half = 2.570582 * math.sqrt(3.5 / 6)
    assert mean_interval([1, 2, 3, 4, 5, 6]) == pytest.approx((3.5 - half, 3.5 + half), rel=1e-6)
    assert mean_interval([4.0, 4.0]) == (4.0, 4.0)
    assert mean_interval([1.0]) == (-math.inf, math.inf)
    assert all(math.isnan(end) for end in mean_interval([]))


@pytest.mark.parametrize(("freedom", "quantile"), [(31, 2.039513), (40, 2.021075), (100, 1.983972), (1000, 1.962339)])
def test_quantiles_beyond_the_table(freedom, quantile):
    n = freedom + 1
    values = [(-1.0) ** k for k in range(n - n % 2)] + [0.0] * (n % 2)
    variance = sum(value**2 for value in values) / freedom
    assert mean_interval(values)[1] == pytest.approx(quantile * math.sqrt(variance / n), abs=3e-6)

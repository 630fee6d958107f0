"""Mixed deviations by hand."""

from __future__ import annotations

import statistics

import pytest
from credit_cases import LAW, credit_of
from hypothesis import given
from hypothesis import strategies as st

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.mapo import MixedDeviation


@LAW
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.sampled_from([0, 1]))
def test_mixed_deviation_by_hand(group, ddof):
    weight = MixedDeviation(ddof=ddof, epsilon=0.01)
    found = credit_of(GroupRelative(scale=None, weigh=(weight,)), group)
    mean, deviation = statistics.fmean(group), (statistics.stdev if ddof else statistics.pstdev)(group)
    p = statistics.fmean(reward > 0.5 for reward in group)
    lam = 1 - 4 * p * (1 - p)
    for reward, got in zip(group, found, strict=True):
        relative = (reward - mean) / (mean + 0.01) if mean > 0 else 0.0
        assert got == pytest.approx((1 - lam) * (reward - mean) / (deviation + 0.01) + lam * relative, abs=1e-7)


def test_a_mean_of_zero_gives_zero():
    assert credit_of(GroupRelative(scale=None, weigh=(MixedDeviation(epsilon=0.0),)), [0.0, 0.0]) == [0.0, 0.0]

"""Likelihoods of what is negative."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import doubles, value_and_gradient

from hocket.methods.group_relative.nft import negative_likelihood

many = settings(max_examples=60, deadline=None)


@many
@given(st.floats(-5, 5), st.floats(0.02, 0.98), st.floats(0.05, 1.0))
def test_negative_likelihood_is_the_logarithm_above_its_floor_and_a_line_below(gap, rate, floor):
    value, slope = value_and_gradient(lambda x: negative_likelihood(x.exp(), doubles(rate), floor).sum(), doubles(gap))
    implied = (1 - rate * math.exp(gap)) / (1 - rate)
    bounded = max(implied, floor)
    assert float(value) == pytest.approx(-math.log(bounded), abs=1e-12)
    assert float(slope) == pytest.approx(rate * math.exp(gap) / (1 - rate) / bounded)

"""Weights by difficulty, by hand."""

from __future__ import annotations

import math
import statistics

import pytest
from credit_cases import LAW, credit_of
from hypothesis import given
from hypothesis import strategies as st

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.vital_dgrpo import Difficulty


@LAW
@given(st.lists(st.lists(st.floats(-3, 3), min_size=2, max_size=5), min_size=1, max_size=5), st.floats(0, 4))
def test_difficulty_weights_have_mean_one_and_fall_with_the_mean(groups, strength):
    plain = credit_of(GroupRelative(epsilon=0.1), *groups)
    weighed = credit_of(GroupRelative(epsilon=0.1, weigh=(Difficulty(strength),)), *groups)
    sizes, means = [len(group) for group in groups], [statistics.fmean(group) for group in groups]
    raw = [math.exp(-strength * mean) for mean in means]
    scale = sum(sizes) / math.fsum(size * one for size, one in zip(sizes, raw, strict=True))
    factors = [one * scale for one, size in zip(raw, sizes, strict=True) for _ in range(size)]
    assert statistics.fmean(factors) == pytest.approx(1)
    assert weighed == pytest.approx([a * f for a, f in zip(plain, factors, strict=True)], abs=1e-9)

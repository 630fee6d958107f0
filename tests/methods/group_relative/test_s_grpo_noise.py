"""Weights by noise, by hand."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from credit_cases import LAW, credit_of
from hypothesis import given
from hypothesis import strategies as st

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.s_grpo_noise import NoiseAware, noise_weight

BINARY = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8)


@LAW
@given(st.lists(BINARY, min_size=1, max_size=5), st.floats(0, 0.45))
def test_noise_weights_by_hand(groups, flip):
    credit = GroupRelative(weigh=(NoiseAware(flip=flip, epsilon=1e-4, success=0.5),))
    plain = credit_of(GroupRelative(), *groups)
    expected = []
    for group in groups:
        q = statistics.fmean(group)
        t = min(max((q - flip) / (1 - 2 * flip), 0.0), 1.0)
        w = (1 - 2 * flip) * t * (1 - t) / math.sqrt((q * (1 - q) + 1e-4) * (t * (1 - t) + 1e-4))
        assert 0 <= w <= 1
        expected += [w] * len(group)
    assert credit_of(credit, *groups) == pytest.approx([a * w for a, w in zip(plain, expected, strict=True)], abs=1e-9)


def test_the_noise_weight_is_that_of_a_correlation():
    """Of a Bernoulli(t) label and its flip: (1-2p) sqrt(t(1-t)) / sqrt(q(1-q))."""
    t, p = 0.3, 0.2
    q = t * (1 - p) + (1 - t) * p
    weight = float(noise_weight(torch.tensor(q, dtype=torch.float64), p, 0.0))
    assert weight == pytest.approx((1 - 2 * p) * math.sqrt(t * (1 - t) / (q * (1 - q))))

"""Bounds that adapt, and the share of positives that they reach."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.methods.group_relative.bapo import positive_share

many = settings(max_examples=60, deadline=None)


@many
@given(st.integers(0, 10**6))
def test_the_share_rises_with_either_bound(seed):
    noise = Key.of(seed).numpy()
    ratio, gain = torch.from_numpy(noise.uniform(0.1, 4.0, 30)), torch.from_numpy(noise.normal(size=30))
    lows = [positive_share(ratio, gain, low, 1.2, 3.0) for low in (0.5, 0.7, 0.9, 1.0)]
    highs = [positive_share(ratio, gain, 0.8, high, 3.0) for high in (1.0, 1.5, 2.5, 5.0)]
    assert lows == sorted(lows)
    assert highs == sorted(highs)

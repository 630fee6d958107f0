"""Bounds that adapt, and the share of positives that they reach."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batches, close, total_of, value_and_gradient

from hocket.core.keys import Key
from hocket.methods.group_relative.bapo import AdaptiveClip, positive_share
from hocket.objectives.surrogate import ClippedSurrogate

AGGREGATES = st.sampled_from(["token-mean", "sequence-mean", "sequence-sum", "constant-length"])


many = settings(max_examples=60, deadline=None)


@many
@given(batches(), AGGREGATES)
def test_bounds_that_cannot_move_make_ppo(drawn, aggregate):
    batch, logp = drawn
    fixed = AdaptiveClip(low=0.7, low_limit=0.7, high=1.5, high_limit=1.5, dual=4.0, aggregate=aggregate)
    ours = value_and_gradient(total_of(fixed, batch), logp)
    theirs = value_and_gradient(total_of(ClippedSurrogate(0.3, 0.5, dual=4.0, aggregate=aggregate), batch), logp)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


@many
@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_search_stops_at_the_first_bounds_that_suffice(seed, share):
    noise = Key.of(seed).numpy()
    ratio = torch.from_numpy(noise.uniform(0.1, 4.0, 40))
    gain = torch.from_numpy(noise.normal(size=40) - 0.5)
    objective = AdaptiveClip(share=share)
    low, high = objective.bounds(ratio, gain)
    reached = positive_share(ratio, gain, low, high, 3.0) >= share
    assert reached or (low, high) == (0.9, 3.0)
    if low > 0.6 and high == 1.2:
        assert positive_share(ratio, gain, max(0.6, low - 0.05), high, 3.0) < share
    if high > 1.2:
        assert low == 0.9


@many
@given(st.integers(0, 10**6))
def test_the_share_rises_with_either_bound(seed):
    noise = Key.of(seed).numpy()
    ratio, gain = torch.from_numpy(noise.uniform(0.1, 4.0, 30)), torch.from_numpy(noise.normal(size=30))
    lows = [positive_share(ratio, gain, low, 1.2, 3.0) for low in (0.5, 0.7, 0.9, 1.0)]
    highs = [positive_share(ratio, gain, 0.8, high, 3.0) for high in (1.0, 1.5, 2.5, 5.0)]
    assert lows == sorted(lows)
    assert highs == sorted(highs)

"""Scenarios whose rewards vary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hocket.curriculum.variable import sample_variance, variable


@given(st.dictionaries(st.integers(0, 30), st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=5), min_size=1))
def test_variable_keeps_what_exceeds_the_threshold(rewards):
    kept = variable(rewards, threshold=0.1)
    assert set(kept) == {number for number, own in rewards.items() if sample_variance(own) > 0.1}
    assert list(kept) == sorted(kept)
    few = variable(rewards, share=0.5)
    assert len(few) <= max(1, round(0.5 * len(rewards)))
    left = [sample_variance(rewards[n]) for n in set(rewards) - set(few)]
    assert not few or max(left, default=0.0) <= min(sample_variance(rewards[n]) for n in few)

"""Preference levels and their pairs, and the leash to the old policy."""

from __future__ import annotations

import pytest
import torch
from credit_cases import answers_of, pairs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batches, close, occurrences, total_of, value_and_gradient

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.trpa import KLToOld, PreferenceLevels


def test_all_pairs_across_levels_and_the_sign_of_the_highest():
    batch = answers_of([1.0, 0.2, 0.0, 0.2])
    seen = PreferenceLevels()(batch)
    assert pairs_of(seen) == [(0, 1), (0, 2), (0, 3), (1, 2), (3, 2)]
    assert seen.advantage.tolist() == [1.0, -1.0, -1.0, -1.0]


many = settings(max_examples=60, deadline=None)


@many
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=2, max_size=7))
def test_levels_know_order_only(rewards):
    bent = [reward**3 * 7 - 2 for reward in rewards]
    one = PreferenceLevels()(answers_of(rewards))
    other = PreferenceLevels(right=0.5**3 * 7 - 2)(answers_of(bent))
    assert pairs_of(one) == pairs_of(other)
    assert one.advantage.tolist() == other.advantage.tolist()


def test_named_scores_are_compared_one_after_the_other():
    scores = [{"right": 0.0, "bonus": 9.0}, {"right": 1.0, "bonus": 0.0}, {"right": 1.0, "bonus": 1.0}]
    batch = answers_of([9.0, 1.0, 2.0], scores=scores)
    assert pairs_of(PreferenceLevels(order=("right",))(batch)) == [(1, 0), (2, 0)]
    assert pairs_of(PreferenceLevels(order=("right", "bonus"))(batch)) == [(1, 0), (2, 0), (2, 1)]
    with pytest.raises(ConfigurationError, match="'judge'"):
        PreferenceLevels(order=("judge",))(batch)


def test_without_any_pair_right_ones_go_up_and_wrong_ones_down():
    batch = answers_of([1.0, 1.0, 0.0, 0.0], groups=[0, 0, 1, 1])
    seen = PreferenceLevels()(batch)
    assert len(seen.pairs) == 0
    assert seen.advantage.tolist() == [1.0, 1.0, -1.0, -1.0]
    assert seen.weight.tolist() == [1.0] * 4
    assert not PreferenceLevels(lone=False)(batch).weight.any()
    assert PreferenceLevels()(answers_of([0.2, 0.2])).advantage.tolist() == [-1.0, -1.0]
    assert PreferenceLevels()(answers_of([1.0, 1.0])).advantage.tolist() == [1.0, 1.0]


def test_a_constant_group_beside_pairs_is_in_the_trust_region_alone():
    seen = PreferenceLevels()(answers_of([0.4, 0.2, 0.0, 0.0], groups=[0, 0, 1, 1]))
    assert pairs_of(seen) == [(0, 1)]
    assert seen.advantage.tolist() == [-1.0, -1.0, 0.0, 0.0]  # Nobody is right.
    assert seen.weight.tolist() == [1.0] * 4


@many
@given(batches(), st.sampled_from([None, 0.25]))
def test_kl_to_the_old_policy(drawn, root):
    batch, logp = drawn
    old = batch.logp["behaviour"].values

    def naive(x):
        parts = [w * (torch.exp(old[d] - x[d]) - 1 - (old[d] - x[d])) for row in occurrences(batch) for d, _, w in row]
        if not parts:
            return torch.zeros(()).double()
        mean = sum(parts[1:], parts[0]) / len(parts)
        return 0.2 * (mean if root is None else torch.sqrt(mean + root))

    if float((logp - old).abs().max() if len(old) else 0.0) > 40:
        return
    found = value_and_gradient(total_of(KLToOld(0.2, root), batch), logp)
    wanted = value_and_gradient(naive, logp)
    close(found[0], wanted[0], 1e-6)
    close(found[1], wanted[1], 1e-6)

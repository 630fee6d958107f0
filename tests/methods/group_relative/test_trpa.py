"""Preference levels and their pairs, and the leash to the old policy."""

from __future__ import annotations

from credit_cases import answers_of, pairs_of
from hypothesis import settings

from hocket.methods.group_relative.trpa import PreferenceLevels


def test_all_pairs_across_levels_and_the_sign_of_the_highest():
    batch = answers_of([1.0, 0.2, 0.0, 0.2])
    seen = PreferenceLevels()(batch)
    assert pairs_of(seen) == [(0, 1), (0, 2), (0, 3), (1, 2), (3, 2)]
    assert seen.advantage.tolist() == [1.0, -1.0, -1.0, -1.0]


many = settings(max_examples=60, deadline=None)


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

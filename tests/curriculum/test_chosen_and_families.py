"""Curricula that ask a choice of scenarios, or families of them together."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.curriculum.shuffled import Shuffled
from hocket.curriculum.variable import sample_variance, variable
from hocket.lab.world import World
from hocket.methods.group_relative.ps_grpo import Families
from hocket.methods.group_relative.temporal_r1 import Chosen
from hocket.tasks.sums import Sums
from hocket.train.ledger import Ledger


def asked(curriculum, size, count, *, start=0, seed=0):
    world = World(questions=size, tokens=2, horizon=1, reward=lambda question, answer: 0.0)
    return [s.seed for s in curriculum(world, start, count, Ledger(), Key.of(seed))]


@given(st.integers(1, 13), st.integers(1, 5), st.integers(0, 99))
def test_every_pass_asks_everything_once_and_families_together(size, family, seed):
    found = asked(Families(family=family), size, 2 * size, seed=seed)
    for epoch in (found[:size], found[size:]):
        assert sorted(epoch) == list(range(size))
        runs = [number // family for number in epoch]
        changes = sum(one != other for one, other in itertools.pairwise(runs))
        assert changes == len(set(runs)) - 1, "a family's members follow each other"


@given(st.integers(1, 13), st.integers(1, 5), st.integers(1, 20))
def test_what_is_asked_does_not_depend_on_the_steps(size, family, cut):
    curriculum = Families(family=family)
    whole = asked(curriculum, size, 30)
    assert asked(curriculum, size, cut) + asked(curriculum, size, 30 - cut, start=cut) == whole


def test_families_of_an_endless_task_are_aligned():
    numbers = [s.seed for s in Families(family=4)(Sums(), 8, 8, Ledger(), Key.of(3))]
    assert numbers[0] % 4 == 0
    assert numbers == list(range(numbers[0], numbers[0] + 8))


def test_chosen_scenarios_alone_are_asked_each_once_per_pass():
    found = asked(Chosen(numbers=(4, 7, 1)), 9, 9)
    assert Counter(found) == {4: 3, 7: 3, 1: 3}
    assert {frozenset(found[at : at + 3]) for at in (0, 3, 6)} == {frozenset({1, 4, 7})}
    assert asked(Chosen(), 9, 18) == asked(Shuffled(), 9, 18)


@given(st.dictionaries(st.integers(0, 30), st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=5), min_size=1))
def test_variable_keeps_what_exceeds_the_threshold(rewards):
    kept = variable(rewards, threshold=0.1)
    assert set(kept) == {number for number, own in rewards.items() if sample_variance(own) > 0.1}
    assert list(kept) == sorted(kept)
    few = variable(rewards, share=0.5)
    assert len(few) <= max(1, round(0.5 * len(rewards)))
    left = [sample_variance(rewards[n]) for n in set(rewards) - set(few)]
    assert not few or max(left, default=0.0) <= min(sample_variance(rewards[n]) for n in few)


def test_a_family_has_members():
    with pytest.raises(ValueError, match="family"):
        Families(family=0)

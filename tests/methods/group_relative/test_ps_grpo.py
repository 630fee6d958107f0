"""Agreement across paraphrases, and families of scenarios that are asked together."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.lab.world import World
from hocket.methods.group_relative.ps_grpo import Families
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


def test_a_family_has_members():
    with pytest.raises(ValueError, match="family"):
        Families(family=0)

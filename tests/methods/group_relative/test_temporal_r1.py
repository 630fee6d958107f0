"""Intervals in words, their overlap in counted cells, and scenarios that were chosen."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.curriculum.shuffled import Shuffled
from hocket.lab.world import World
from hocket.methods.group_relative.temporal_r1 import Chosen, interval_iou, interval_of
from hocket.train.ledger import Ledger

BOUNDS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda ends: (float(min(ends)), float(max(ends))))


@given(BOUNDS, BOUNDS)
def test_iou_counts_cells(one, other):
    cells = set(range(int(one[0]), int(one[1]))), set(range(int(other[0]), int(other[1])))
    union = cells[0] | cells[1]
    expected = 1.0 if one == other else len(cells[0] & cells[1]) / len(union) if union else 0.0
    assert interval_iou(one, other) == pytest.approx(expected)
    assert interval_iou(one, other) == interval_iou(other, one)


def test_intervals_in_words():
    assert interval_of("from 2.5 s to 7 s") == (2.5, 7.0)
    assert interval_of("2-7") == (2.0, 7.0)
    assert interval_of("at 7") is None
    assert interval_iou((7.0, 2.0), (2.0, 7.0)) == 0.0
    assert interval_iou((7.0, 2.0), (7.0, 2.0)) == 0.0


def asked(curriculum, size, count, *, start=0, seed=0):
    world = World(questions=size, tokens=2, horizon=1, reward=lambda question, answer: 0.0)
    return [s.seed for s in curriculum(world, start, count, Ledger(), Key.of(seed))]


def test_chosen_scenarios_alone_are_asked_each_once_per_pass():
    found = asked(Chosen(numbers=(4, 7, 1)), 9, 9)
    assert Counter(found) == {4: 3, 7: 3, 1: 3}
    assert {frozenset(found[at : at + 3]) for at in (0, 3, 6)} == {frozenset({1, 4, 7})}
    assert asked(Chosen(), 9, 18) == asked(Shuffled(), 9, 18)

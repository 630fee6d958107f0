"""Anchor states: when two state keys are one."""

from __future__ import annotations

import pytest
from credit_cases import batch_of, by_trajectory, make, make_turn

from hocket.core.batch import GroupBy
from hocket.credit.anchors import alike, similar
from hocket.credit.turn_level import TurnRelative

BY = GroupBy("scenario", "state")
ROOM = "You are in the kitchen. On the table you see a red mug and a knife, and the drawer is {}."


def walk(group, *states):
    return make(group, 1.0, turns=[make_turn(1, state=state) for state in states])


def codes(batch):
    return batch.state.tolist()


def test_near_texts_join_and_others_do_not():
    batch = batch_of([walk("g", ROOM.format("open"), "outside"), walk("g", ROOM.format("shut"), None)])
    joined = codes(alike(batch, 0.9))
    assert joined[0] == joined[2]
    assert len(set(joined)) == 3
    assert len(set(codes(alike(batch, 1.0)))) == 4


def test_scenarios_do_not_mix_and_unnamed_states_stay_alone():
    batch = batch_of([walk("g", "aaaa"), walk("h", "aaab"), walk("g", None), walk("g", None)])
    assert len(set(codes(alike(batch, 0.5)))) == 4


def test_a_key_joins_the_first_that_it_resembles():
    """`near` resembles both; `far` does not resemble the first, so it begins a cluster of its own."""
    first, near, far = "abcdefgh", "abcdefxx", "abxdefxx"
    assert similar(first, near, 0.75)
    assert similar(near, far, 0.75)
    assert not similar(first, far, 0.75)
    batch = batch_of([walk("g", first), walk("g", near), walk("g", far)])
    assert codes(alike(batch, 0.75)) == [0, 0, 1]
    back = batch_of([walk("g", far), walk("g", near), walk("g", first)])
    assert codes(alike(back, 0.75)) == [0, 0, 1]


@pytest.mark.parametrize("threshold", [0.3, 0.8, 1.0])
def test_equal_keys_are_always_one(threshold):
    batch = batch_of([walk("g", "hall", "yard"), walk("g", "hall", "yard")])
    joined = codes(alike(batch, threshold))
    assert joined[0] == joined[2]
    assert joined[1] == joined[3]


def test_credit_groups_what_is_alike():
    rows = [make("g", reward, turns=[make_turn(2, state=ROOM.format(n))]) for n, reward in enumerate((1.0, 0.0))]
    batch = batch_of(rows)
    apart = TurnRelative(by=BY, baseline="mean")
    joined = TurnRelative(by=BY, baseline="mean", similarity=0.9)
    assert by_trajectory(batch, apart(batch).advantage) == [[0.0, 0.0], [0.0, 0.0]]
    assert by_trajectory(batch, joined(batch).advantage) == [[0.5, 0.5], [-0.5, -0.5]]

"""Scenarios asked by how often they are failed, and scores of lengths."""

from __future__ import annotations

import pytest

from hocket.core.keys import Key
from hocket.lab.world import World
from hocket.methods.group_relative.kimi_k1_5 import ByFailure
from hocket.train.ledger import Ledger

KEY = Key.of(3)


def world(questions: int) -> World:
    return World(questions, 2, 1, reward=lambda question, answer: 0.0)


def test_a_step_asks_different_scenarios_and_the_same_key_the_same():
    curriculum, ledger = ByFailure(prompts=4, pool=6), Ledger()
    for start in range(6, 60, 4):
        asked = [one.id for one in curriculum(world(6), start, 4, ledger, KEY)]
        assert len(set(asked)) == 4
        assert asked == [one.id for one in curriculum(world(6), start, 4, ledger, KEY)]


def test_solved_ones_come_back_seldom_and_more_can_be_asked_than_there_are():
    ledger = Ledger()
    ledger.record("lab/0", 1, 1.0)
    ledger.record("lab/1", 1, 0.0)
    asked = [ByFailure(floor=0.01)(world(2), 2 + n, 1, ledger, KEY)[0].id for n in range(300)]
    assert asked.count("lab/0") < 15
    assert len(ByFailure()(world(2), 0, 5, ledger, KEY)) == 5


@pytest.mark.parametrize("fields", [{"prompts": 0}, {"floor": 0.0}, {"window": 0}])
def test_settings_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match="|".join(fields)):
        ByFailure(**fields)

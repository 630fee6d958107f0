"""Hints for what is too hard, heat for what is too easy."""

import asyncio

import pytest

from hocket.core.keys import Key
from hocket.methods.group_relative.deepvideo_r1 import DifficultyAware
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding, Scenario


def asked_after(histories, **fields):
    """What is played of scenarios with these past rewards and a solution of four tokens each."""
    ledger, played = Ledger(), []
    for name, reward in histories.items():
        if reward is not None:
            ledger.record(name, 1, reward)

    async def play(assignments):
        played.extend(assignments)
        return []

    async def score(trajectories):
        pass

    asked = [
        Assignment(Scenario(name, name, metadata={"solution": [7, 8, 9, 3]}), decoding=Decoding()) for name in histories
    ]
    rollout = DifficultyAware(samples=3, **fields)
    experience = asyncio.run(rollout.collect(asked, play=play, score=score, ledger=ledger, key=Key.of(0)))
    return {one.scenario.id: one for one in played}, experience.metrics


def test_hard_ones_are_hinted_easy_ones_heated_and_the_others_left_alone():
    played, metrics = asked_after({"hard": 0.0, "middle": 0.5, "easy": 1.0, "new": None})
    assert played["hard"].prefix == (7, 8, 9)
    assert played["middle"].prefix == played["easy"].prefix == played["new"].prefix == ()
    assert played["easy"].decoding.temperature == 1.5
    assert {one.decoding.temperature for name, one in played.items() if name != "easy"} == {1.0}
    assert {one.samples for one in played.values()} == {3}
    assert metrics == {"rollout/hinted": 1.0, "rollout/heated": 1.0}


def test_a_hint_grows_with_the_gap():
    played, _ = asked_after({"a": 0.3, "b": 0.7}, least=0.25)
    assert played["a"].prefix == (7, 8)


def test_without_a_past_nothing_changes():
    played, metrics = asked_after({"a": None, "b": None})
    assert all(not one.prefix and one.decoding.temperature == 1.0 for one in played.values())
    assert not any(metrics.values())


@pytest.mark.parametrize("fields", [{"samples": 0}, {"margin": -1.0}, {"least": 0.0}, {"heat": 1.0}])
def test_settings_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match="|".join(fields)):
        DifficultyAware(**fields)

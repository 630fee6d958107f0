"""Sampling hotter or cooler by the entropy that is measured."""

from __future__ import annotations

import numpy as np
import pytest
from rollout_cases import Game, letter_world

from hocket.methods.group_relative.aepo import Tempered, sampled_entropy
from hocket.methods.group_relative.edge_grpo import GuidedCorrection


@pytest.mark.parametrize(("target", "factor"), [(0.0, 0.8), (9.0, 1.2)])
def test_the_temperature_follows_the_measured_entropy(target, factor):
    game = Game(letter_world())
    found = game.collect(Tempered(samples=3, extra=2, target=target))
    own, further = found.trajectories[:6], found.trajectories[6:]
    assert [t.info.get("tempered", False) for t in found.trajectories] == [False] * 6 + [True] * 4
    assert {one.decoding.temperature for one in game.asked[1]} == {factor}
    assert found.metrics == {"rollout/entropy": sampled_entropy(own), "rollout/temperature": factor}
    assert {t.sample for t in further} == {3, 4}  # No draw of the own samples is repeated.
    for trajectory in further:
        assert trajectory.turns[0].logp is None
        assert trajectory.turns[0].decoding.temperature == 1.0


def test_the_entropy_is_that_of_sampled_decisions():
    game = Game(letter_world())
    (trajectory,) = game.collect(GuidedCorrection(samples=2, share=0.0), count=1).trajectories[:1]
    turn = trajectory.turns[0]
    assert sampled_entropy([trajectory]) == pytest.approx(float(-np.mean(turn.logp)))
    turn.forced = np.ones(len(turn), bool)
    assert sampled_entropy([trajectory]) == sampled_entropy([]) == 0.0

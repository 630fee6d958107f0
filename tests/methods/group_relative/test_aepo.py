"""Sampling hotter or cooler by the entropy that is measured."""

from __future__ import annotations

import numpy as np
import pytest
from rollout_cases import Game, letter_world

from hocket.methods.group_relative.aepo import sampled_entropy
from hocket.methods.group_relative.edge_grpo import GuidedCorrection


def test_the_entropy_is_that_of_sampled_decisions():
    game = Game(letter_world())
    (trajectory,) = game.collect(GuidedCorrection(samples=2, share=0.0), count=1).trajectories[:1]
    turn = trajectory.turns[0]
    assert sampled_entropy([trajectory]) == pytest.approx(float(-np.mean(turn.logp)))
    turn.forced = np.ones(len(turn), bool)
    assert sampled_entropy([trajectory]) == sampled_entropy([]) == 0.0

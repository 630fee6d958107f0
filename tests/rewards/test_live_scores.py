"""Scores of a live run: all of them are summed, whatever their names; in recorded batches `reward` is the sum."""

from __future__ import annotations

import numpy as np

from hocket.core.batch import Level
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.microscope import RecordedBatch
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn


def test_a_score_called_reward_hides_no_other():
    turns = [Turn("solo", "solo", np.zeros(1), np.array([0]), np.zeros(1, np.float32)) for _ in range(2)]
    scores = {"reward": Score(1.0), "steps": Score([0.25, 0.25], Level.TURN)}
    batch = pack([Trajectory(Scenario("s"), turns, 0, scores=scores)])
    assert returns(WeightedSum()(batch, {})).tolist() == [1.5]


def test_in_a_recorded_batch_the_reward_is_the_sum():
    row = {"group": "g", "logp": [-1.0], "scores": {"reward": 1.0, "format": 0.5}}
    batch = RecordedBatch({"version": 1, "trajectories": [row]}).batch
    assert returns(WeightedSum()(batch, {})).tolist() == [1.0]

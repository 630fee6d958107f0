"""Rewards calibrated by confidence."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.signals import returns
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.lens import CalibratedReward, calibrated_reward
from hocket.rewards.combine import WeightedSum

many = settings(max_examples=60, deadline=None)


def shaped(rows, **fields):
    """Returns after shaping; rows are (reward, log-probs)."""
    document = [{"group": "g", "scores": {"reward": reward}, "logp": logp} for reward, logp in rows]
    batch = WeightedSum()(RecordedBatch({"version": 1, "trajectories": document}).batch, {})
    return returns(CalibratedReward(**fields)(batch)).tolist()


@many
@given(st.floats(0, 1), st.floats(0.001, 0.98), st.floats(0.01, 1))
def test_the_limit_bounds_smoothly_and_vanishes_as_it_grows(reward, confidence, room):
    c, d = (torch.tensor([value], dtype=torch.float64) for value in (confidence, confidence + room))
    r = torch.tensor([reward], dtype=torch.float64)
    bounded = float(calibrated_reward(r, c, d, 1.0))
    assert reward - (1 - reward) <= bounded <= reward
    exact = float(calibrated_reward(r, c, d, None))
    assert exact == pytest.approx(reward - (1 - reward) * confidence / room)
    assert float(calibrated_reward(r, c, d, 1e12)) == pytest.approx(exact)


def test_confidences_of_mean_and_of_sequences():
    rows = [(1.0, [-0.1]), (0.0, [-0.5, -1.5]), (0.0, [-3.0])]
    assert shaped(rows, difficulty=1.0) == pytest.approx([1.0, -math.exp(-1.0), -math.exp(-3.0)])
    c = math.exp(-2.0)
    found = shaped(rows, confidence="sequence", difficulty=1.0, limit=None)
    assert found == pytest.approx([1.0, -c / (1 - c), -math.exp(-3) / (1 - math.exp(-3))])


@pytest.mark.parametrize("fields", [{"limit": None}, {"limit": 0.0}, {"difficulty": 2.0}, {"confidence": "median"}])
def test_settings_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match=r"limit|difficulty|confidence"):
        CalibratedReward(**fields)

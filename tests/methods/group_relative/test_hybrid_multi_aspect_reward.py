"""A rule over a model, and a band of lengths."""

from __future__ import annotations

import math

import pytest
import torch
from rewards_cases import rewards_of, scored_batch

from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.hybrid_multi_aspect_reward import LengthBand, RuleOverModel, band_penalty, mixed


def test_a_rule_overrides_a_model_by_its_confidence():
    rows = [
        {"correct": 1.0, "model": 0.2, "sure": 0.5},
        {"correct": None, "model": 0.4},
        {"correct": 0.0, "model": None},
    ]
    batch = scored_batch(rows)
    assert rewards_of(RuleOverModel(weights={"sure": 0.0})(batch, {})) == [1.0, 0.4, 0.0]
    assert rewards_of(RuleOverModel(confidence=0.25, weights={"sure": 0.0})(batch, {})) == pytest.approx(
        [0.4, 0.4, 0.0]
    )
    assert rewards_of(RuleOverModel(confidence="sure")(batch, {})) == pytest.approx([0.6, 0.4, 0.0])
    with pytest.raises(ValueError, match="confidence"):
        RuleOverModel(confidence=1.5)


def test_mixture_knows_who_has_no_opinion():
    nan = math.nan
    found = mixed(*(torch.tensor(x) for x in ([1.0, nan, 1.0, nan], [0.0, 0.5, nan, nan], [0.75, 1.0, 0.0, 0.5])))
    assert found[:3].tolist() == [0.75, 0.5, 1.0]
    assert math.isnan(found[3])


def test_a_length_band_costs_what_lies_outside():
    lengths = torch.tensor([0, 5, 10, 20, 30, 40, 100])
    assert band_penalty(lengths, 10, 20, 1.0).tolist() == [1.0, 0.5, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert band_penalty(lengths, 0, 20, 2.0).tolist() == [0.0, 0.0, 0.0, 0.0, 0.25, 1.0, 1.0]
    rows = [{"group": "g", "scores": {"reward": 1.0}, "logp": [-1.0] * size} for size in (2, 3)]
    batch = LengthBand(longest=2, penalty=0.5)(RecordedBatch({"version": 1, "trajectories": rows}).batch)
    assert batch.scores["reward"].values.tolist() == [1.0, 0.75]
    with pytest.raises(ValueError, match="shortest"):
        LengthBand(longest=1, shortest=2)

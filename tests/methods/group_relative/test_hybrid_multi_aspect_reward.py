"""A rule over a model, and a band of lengths."""

from __future__ import annotations

import math

import pytest
import torch

from hocket.methods.group_relative.hybrid_multi_aspect_reward import LengthBand, RuleOverModel, mixed


def test_mixture_knows_who_has_no_opinion():
    nan = math.nan
    found = mixed(*(torch.tensor(x) for x in ([1.0, nan, 1.0, nan], [0.0, 0.5, nan, nan], [0.75, 1.0, 0.0, 0.5])))
    assert found[:3].tolist() == [0.75, 0.5, 1.0]
    assert math.isnan(found[3])


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="confidence"):
        RuleOverModel(confidence=1.5)
    with pytest.raises(ValueError, match="shortest"):
        LengthBand(longest=1, shortest=2)

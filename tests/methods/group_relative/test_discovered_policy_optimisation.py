"""Learnt drifts and their files."""

from __future__ import annotations

import json

import pytest
import torch
from objective_batches import close

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.discovered_policy_optimisation import LearntDrift
from hocket.objectives.learnt_drift import drift_features, network_drift, write_drift


def test_a_learnt_drift_goes_through_its_file(tmp_path):
    noise = torch.Generator().manual_seed(1)
    inner = torch.randn(8, 3, generator=noise, dtype=torch.float64).round(decimals=4)
    outer = torch.randn(3, generator=noise, dtype=torch.float64).round(decimals=4)
    write_drift(tmp_path / "mine.json", inner, outer, seed=1)
    drift = LearntDrift(str(tmp_path / "mine.json"))
    x, a = torch.linspace(-1, 1, 9).double(), torch.ones(9).double()
    close(drift(x, a, 0.0), network_drift(x, a, inner, outer))
    assert drift_features(x, a).shape == (9, 8)


SHORT = json.dumps({"inner": [[0.1, 0.2]] * 7, "outer": [0.1, 0.2]})
"""As many outer weights, but a feature less."""


@pytest.mark.parametrize("content", [None, "no json", json.dumps({"inner": [[1.0]], "outer": [1.0]}), "{}", SHORT])
def test_a_bad_file_is_named(tmp_path, content):
    file = tmp_path / "bad.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"bad\.json"):
        LearntDrift(str(file))

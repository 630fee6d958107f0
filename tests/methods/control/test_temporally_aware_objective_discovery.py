"""Drifts that are told the time."""

from __future__ import annotations

import json

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.control.temporally_aware_objective_discovery.method import BLIND, TIMED, TimedDrift


def test_a_file_of_a_network_that_is_not_told_the_time_is_refused(tmp_path):
    file = tmp_path / "drift.json"
    file.write_text(json.dumps({"inner": [[0.1, 0.2]] * 8, "outer": [0.1, 0.2]}))
    with pytest.raises(ConfigurationError, match="16 rows"):
        TimedDrift(str(file))


def test_both_shipped_networks_were_found_with_as_many_generations():
    about = [json.loads(file.read_text()) for file in (TIMED, BLIND)]
    pairs = [(one["generations"], one["seed"]) for one in about]
    rows = [len(one["inner"]) for one in about]
    assert pairs[0] == pairs[1]
    assert rows == [16, 8]

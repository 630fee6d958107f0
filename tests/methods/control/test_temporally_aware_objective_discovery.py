"""Drifts that are told the time."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.discover import compared
from hocket.methods.control.temporally_aware_objective_discovery.lifetimes import Lifetimes, Timed
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


def test_a_run_of_n_batches_is_told_how_far_it_is():
    told: list[float] = []

    def watching(log_ratio: Tensor, advantage: Tensor, done: float) -> Tensor:
        told.append(done)
        return torch.zeros_like(log_ratio)

    family = Lifetimes(iterations=5, epochs=1)
    idle, none = compared(family, [Timed(watching), None], 2, Key.of(1)).tolist()
    assert told == [0, 0.25, 0.5, 0.75, 1]
    assert idle == none

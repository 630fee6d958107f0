"""Metrics of a step's credit, where a batch holds text that the policy did not sample."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.packing import pack
from hocket.train.step_metrics import _credit_metrics
from hocket.types import Scenario, Trajectory, Turn


def mixed(*, recorded: bool) -> Batch:
    """Two answers of two tokens, the second of which nobody sampled, with log-probs as the learner fills them in."""
    turns = [
        Turn("a", "policy", np.zeros(1, np.int64), np.zeros(2, np.int64), logp=np.full(2, -1.0) if drawn else None)
        for drawn in (recorded, False)
    ]
    batch = pack([Trajectory(Scenario("s"), [turn], n) for n, turn in enumerate(turns)])
    every = torch.ones(4, dtype=torch.bool)
    filled = RecordedNumbers(torch.tensor([-1.0, -1.0, -20.0, -20.0]), every)
    reference = RecordedNumbers(torch.tensor([-1.5, -1.0, -2.0, -2.0]), every)
    sampled = batch.logp["behaviour"]
    batch = batch.but(logp={"behaviour": filled, "reference": reference, "sampled": sampled})
    return batch.but(occurrences=replace(batch.occurrences, weight=torch.ones(4)))


def test_entropy_and_kl_are_over_what_was_sampled() -> None:
    found = _credit_metrics(mixed(recorded=True), draws=True)
    assert found["entropy"] == 1.0
    assert found["kl/reference"] == pytest.approx((math.exp(-0.5) - 1 + 0.5) / 2)


def test_where_no_sampler_records_all_count() -> None:
    found = _credit_metrics(mixed(recorded=False), draws=True)
    assert found["entropy"] == 10.5
    assert found["kl/reference"] > 1e7

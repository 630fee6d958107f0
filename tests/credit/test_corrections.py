"""Importance corrections."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, experiences, make, recorded, weights_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import RecordedNumbers
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.corrections import MaskedImportance, TruncatedImportance


def drifted(trajectories, seed, spread=1.0):
    batch = batch_of(trajectories)
    draw = Key.of(seed).torch()
    old = -torch.rand(batch.decisions, generator=draw, dtype=torch.float64)
    gap = spread * torch.randn(batch.decisions, generator=draw, dtype=torch.float64)
    known = torch.rand(batch.decisions, generator=draw) < 0.8
    return batch.but(logp={"behaviour": RecordedNumbers(old, known), "proximal": recorded(old + gap)})


def ratios_by_hand(batch, trajectories, level):
    old, new = batch.logp["behaviour"], batch.logp["proximal"].values
    gap = [
        (n - o) if p else 0.0 for n, o, p in zip(new.tolist(), old.values.tolist(), old.present.tolist(), strict=True)
    ]
    rows = by_trajectory(batch, batch.occurrences.decision)
    result = []
    for trajectory, row in zip(trajectories, rows, strict=True):
        own = [gap[d] for d, w in zip(row, weights_by_hand(trajectory), strict=True) if w]
        result.append([math.exp(math.fsum(own)) if level == "sequence" else math.exp(gap[d]) for d in row])
    return result


@LAW
@given(
    experiences(sources=("own", "own", "baseline")), st.integers(0, 10**6), st.sampled_from(["decision", "sequence"])
)
def test_by_hand(trajectories, seed, level):
    batch = drifted(trajectories, seed)
    ratios = ratios_by_hand(batch, trajectories, level)
    old = [weights_by_hand(t) for t in trajectories]
    stages = {
        TruncatedImportance(cap=1.5, level=level): lambda r: min(r, 1.5),
        MaskedImportance(low=0.6, high=1.7, level=level): lambda r: float(0.6 <= r <= 1.7),
        MaskedImportance(low=0.6, high=1.7, level=level, reweight=True): lambda r: r if 0.6 <= r <= 1.7 else 0.0,
    }
    for stage, factor in stages.items():
        found = by_trajectory(batch, stage(batch).occurrences.weight)
        for i, got in enumerate(found):
            assert got == pytest.approx([w * factor(r) for w, r in zip(old[i], ratios[i], strict=True)], rel=1e-12)


def test_on_policy_nothing_changes():
    batch = batch_of([make("s", 1.0), make("s", 0.0, source="baseline")])
    batch = batch.but(logp={**batch.logp, "proximal": batch.logp["behaviour"]})
    for stage in (TruncatedImportance(cap=1.0), TruncatedImportance(level="sequence"), MaskedImportance()):
        assert torch.equal(stage(batch).occurrences.weight, batch.occurrences.weight.double())


def test_far_drift_saturates():
    batch = batch_of([make("s", 1.0, length=2)])
    logp = {"behaviour": recorded(torch.tensor([-9e3, 0.0])), "proximal": recorded(torch.tensor([0.0, -9e3]))}
    weight = TruncatedImportance(cap=1e30)(batch.but(logp=logp)).occurrences.weight
    assert weight.tolist() == pytest.approx([math.exp(50), math.exp(-50)])


def test_what_is_read_and_checked():
    both = frozenset({Column.BEHAVIOUR, Column.PROXIMAL})
    assert TruncatedImportance().reads == MaskedImportance(low=0.1, high=2).reads == both
    with pytest.raises(ConfigurationError, match="proximal"):
        TruncatedImportance()(batch_of([make("s", 1.0)]))
    with pytest.raises(ValueError, match="cap"):
        TruncatedImportance(cap=0.0)
    with pytest.raises(ValueError, match="level"):
        TruncatedImportance(level="turn")
    with pytest.raises(ValueError, match="low"):
        MaskedImportance(low=2.0, high=1.0)

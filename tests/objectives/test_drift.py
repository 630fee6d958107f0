"""Drifts: each formula against a plain computation, their three conditions, and finiteness."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, batches, occurrences, total_of, value_and_gradient

from hocket.methods.group_relative.discovered_policy_optimisation import LearntDrift, TanhDrift
from hocket.methods.group_relative.mdpo import ForwardKLDrift
from hocket.methods.group_relative.spo import QuadraticDrift
from hocket.objectives.drift import ClipDrift, DriftSurrogate, reach
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.types import Evaluation

many = settings(max_examples=60, deadline=None)


DRIFTS = [ClipDrift(), TanhDrift(), QuadraticDrift(), ForwardKLDrift(), LearntDrift()]


numbers = st.floats(-4, 4)


def double(number):
    return torch.tensor([number], dtype=torch.float64)


def by_hand(drift, x, advantage):
    """The drift of one decision, in plain Python."""
    r = math.exp(x)
    if isinstance(drift, ClipDrift):
        return max(0.0, (r - min(max(r, 0.8), 1.2)) * advantage)
    if isinstance(drift, TanhDrift):
        y, scale = ((r - 1) * advantage, 2.0) if advantage >= 0 else (x * advantage, 0.6)
        return max(0.0, y - scale * math.tanh(y / scale))
    if isinstance(drift, QuadraticDrift):
        return abs(advantage) * (r - 1) ** 2 / (2 * 0.2)
    if isinstance(drift, ForwardKLDrift):
        return r * x - r + 1
    inner, outer = drift.weights
    plain = [1 - r, (1 - r) ** 2, x, x * x]
    features = [*plain, *(value * advantage for value in plain)]
    hidden = [
        math.tanh(sum(f * float(w) for f, w in zip(features, column, strict=True))) for column in inner.T.tolist()
    ]
    return max(0.0, sum(h * float(w) for h, w in zip(hidden, outer, strict=True)) - 1e-6)


@many
@given(x=numbers, advantage=numbers, drift=st.sampled_from(DRIFTS))
def test_each_drift_is_its_formula(x, advantage, drift):
    found = drift(double(x), double(advantage), 0.0)
    assert float(found) == pytest.approx(by_hand(drift, x, advantage), rel=1e-9, abs=1e-12)


@many
@given(x=numbers, advantage=numbers, drift=st.sampled_from(DRIFTS))
def test_a_drift_is_never_negative_and_flat_where_the_policy_is_unchanged(x, advantage, drift):
    a = double(advantage)
    assert float(drift(double(x), a, 0.3)) >= 0
    leaf = torch.zeros(1).double().requires_grad_()
    value = drift(leaf, a, 0.3)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    assert float(value.detach()) == 0
    assert abs(float(slope)) < 1e-12


@many
@given(case=batches(), aggregate=st.sampled_from(["token-mean", "sequence-mean", "sequence-sum", "constant-length"]))
def test_the_clip_as_a_drift_is_the_clipped_surrogate(case, aggregate):
    batch, logp = case
    ours = value_and_gradient(total_of(DriftSurrogate(ClipDrift(), aggregate), batch), logp)
    theirs = value_and_gradient(total_of(ClippedSurrogate(aggregate=aggregate), batch), logp)
    # The drift is subtracted from a term as large as the ratio, which costs so many digits.
    gaps = logp - batch.logp["behaviour"].values.double()
    ratio = float(gaps.max().exp()) if len(gaps) else 0.0
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-12 + 1e-15 * ratio)


@many
@given(case=batches(), drift=st.sampled_from([None, *DRIFTS]))
def test_only_counted_occurrences_matter(case, drift):
    batch, logp = case
    objective = DriftSurrogate(drift)
    value, gradient = value_and_gradient(total_of(objective, batch), logp)
    counted = [one for row in occurrences(batch) for one in row]
    old, expected = batch.logp["behaviour"].values, 0.0
    for decision, advantage, weight in counted:
        x = float(logp[decision] - old[decision])
        penalty = 0.0 if drift is None else by_hand(drift, x, advantage)
        expected += weight * (penalty - math.exp(x) * advantage) / len(counted)
    assert float(value) == pytest.approx(expected, rel=1e-7, abs=1e-9)
    idle = torch.ones(len(logp), dtype=torch.bool)
    idle[[decision for decision, _, _ in counted]] = False
    assert not gradient[idle].any()


@many
@given(
    gap=st.sampled_from([-50.0, -41.0, 41.0, 50.0, 700.0, -700.0]),
    advantage=st.sampled_from([-30.0, -1.0, 0.0, 1.0, 30.0]),
    drift=st.sampled_from([None, *DRIFTS]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_all_stays_finite_and_saturation_is_counted(gap, advantage, drift, dtype):
    batch = batch_of(
        [[0, 1]], behaviour=torch.zeros(2, dtype=dtype), advantage=torch.full((2,), advantage, dtype=dtype)
    )
    value, gradient = value_and_gradient(total_of(DriftSurrogate(drift), batch), torch.full((2,), gap, dtype=dtype))
    assert math.isfinite(float(value))
    assert bool(torch.isfinite(gradient).all())
    told = DriftSurrogate(drift)(Evaluation(torch.full((2,), gap, dtype=dtype)), batch).metrics
    bound = reach(dtype, 1 if drift is None else drift.power)
    active = advantage != 0 or getattr(drift, "regardless_of_advantage", False)
    assert float(told["ratio/saturated"]) == (2.0 if abs(gap) > bound and active else 0.0)


def test_log_ratios_saturate_at_50_but_for_a_square_in_float32():
    assert reach(torch.float64, 1) == reach(torch.float64, 2) == reach(torch.float32, 1) == 50.0
    assert 40.0 < reach(torch.float32, 2) < 41.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: QuadraticDrift(0.0),
        lambda: ClipDrift(low=1.5),
        lambda: TanhDrift(alpha=0.0),
        lambda: ForwardKLDrift(last=0.0),
        lambda: DriftSurrogate(aggregate="mean"),
    ],
)
def test_settings_are_checked(make):
    with pytest.raises(ValueError, match=r"must|choose"):
        make()

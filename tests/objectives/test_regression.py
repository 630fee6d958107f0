"""Regressions on log-ratios against loops in float64; limits of these and of leashes to the old policy."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, batches, close, doubles, occurrences, total_of, value_and_gradient

from hocket.core.batch import Batch, Level
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.methods.group_relative.disco import HingeTrustRegion
from hocket.methods.group_relative.trpa import KLToOld
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.regression import AdvantageRegression
from hocket.types import Evaluation

many = settings(max_examples=60, deadline=None)


settings_of_regression = st.sampled_from(
    [
        AdvantageRegression(),
        AdvantageRegression(0.1, against="reference"),
        AdvantageRegression(0.5, centred=True, coefficient=1.0),
        AdvantageRegression(0.1, centred=True, against="reference", coefficient=0.5, unbiased=True),
    ]
)


def grouped(batch: Batch) -> Batch:
    """Trajectories in two groups, in turn."""
    return batch.but(scenario=torch.arange(batch.trajectories) % 2)


def naive_regression(batch: Batch, x, objective: AdvantageRegression):
    """Written out trajectory by trajectory and group by group."""
    old = batch.logp["reference" if objective.against == "reference" else "behaviour"].values
    rows = occurrences(batch)
    drift = {i: sum(w * (x[d] - old[d]) for d, _, w in row) for i, row in enumerate(rows) if row}
    credit = {i: sum(a for _, a, _ in row) / len(row) for i, row in enumerate(rows) if row}
    groups = {}
    for i in drift:
        groups.setdefault(int(batch.scenario[i]), []).append(i)
    total = torch.zeros((), dtype=torch.float64)
    factor = objective.coefficient or 1 / (2 * objective.temperature)
    for members in groups.values():
        middle = sum(drift[i] for i in members) / len(members) if objective.centred else 0.0
        for i in members:
            share = len(groups) * max(1, len(members) - 1) if objective.unbiased else len(drift)
            total = total + factor * (credit[i] - objective.temperature * (drift[i] - middle)) ** 2 / share
    return total


@many
@given(batches(), settings_of_regression)
def test_the_regression_is_its_formula(drawn, objective):
    batch, logp = drawn
    batch = grouped(batch)
    found = value_and_gradient(total_of(objective, batch), logp)
    wanted = value_and_gradient(lambda x: naive_regression(batch, x, objective), logp)
    close(found[0], wanted[0], 1e-8)
    close(found[1], wanted[1], 1e-8)


@many
@given(batches(credit=["zero", "trajectory"]), st.sampled_from([0.1, 1.0, 7.0]))
def test_at_the_old_policy_its_gradient_is_the_policy_gradient(drawn, temperature):
    batch, _ = drawn
    old = batch.logp["behaviour"].values
    batch = batch.credited(weight=(batch.occurrences.weight != 0).double())
    fitted = value_and_gradient(total_of(AdvantageRegression(temperature), batch), old)[1]
    close(fitted, value_and_gradient(total_of(PolicyGradient("sequence-sum"), batch), old)[1])


@many
@given(batches(), st.floats(-3, 3))
def test_centred_log_ratios_forget_the_normaliser(drawn, shift):
    """One decision per trajectory more or less likely by a constant of the prompt changes nothing."""
    batch, logp = drawn
    rows = occurrences(batch)
    firsts = sorted({row[0][0] for row in rows if row})
    counts = [sum(d in firsts for d, _, _ in row) for row in rows if row]
    if any(count != 1 for count in counts) or any(w != 1 for row in rows for _, _, w in row):
        return
    moved = logp.clone()
    moved[firsts] += shift
    loss = total_of(AdvantageRegression(0.5, centred=True, coefficient=1.0), batch)
    close(loss(moved), loss(logp), 1e-6)


@many
@given(batches(), settings_of_regression, st.integers(0, 10**6))
def test_order_plays_no_part(drawn, objective, seed):
    batch, logp = drawn
    batch = grouped(batch)
    order = torch.from_numpy(Key.of(seed).numpy().permutation(batch.trajectories))
    seen = batch.occurrences
    rows = [[n for n in range(len(seen)) if int(seen.trajectory[n]) == int(i)] for i in order]
    places = torch.tensor([n for row in rows for n in row], dtype=torch.long)
    turned = batch_of(
        [[int(seen.decision[n]) for n in row] for row in rows],
        advantage=seen.advantage[places],
        weight=seen.weight[places],
        behaviour=batch.logp["behaviour"].values,
        reference=batch.logp["reference"].values,
    ).but(scenario=batch.scenario[order])
    close(total_of(objective, turned)(logp), total_of(objective, batch)(logp), 1e-8)


def test_a_group_of_one_is_at_rest_when_centred():
    batch = batch_of([[0, 1]], behaviour=doubles(-1, -1), advantage=doubles(0, 0))
    loss = AdvantageRegression(1.0, centred=True, coefficient=0.5, unbiased=True)
    value, gradient = value_and_gradient(total_of(loss, batch), doubles(-3, -0.1))
    assert float(value) == 0
    assert not gradient.any()


def test_units_say_what_may_not_be_split():
    assert AdvantageRegression().couples is Level.TRAJECTORY
    assert AdvantageRegression(centred=True).couples is Level.GROUP
    assert LogRatioPenalty().couples is Level.TRAJECTORY
    assert LogRatioPenalty(level="decision").couples is Level.DECISION
    assert KLToOld().couples is Level.DECISION
    assert KLToOld(root=0.25).couples is Level.BATCH


LOSSES = [
    AdvantageRegression(0.1),
    AdvantageRegression(0.1, centred=True, coefficient=0.5, unbiased=True),
    LogRatioPenalty(),
    LogRatioPenalty(level="decision"),
    KLToOld(),
    KLToOld(root=0.25),
    HingeTrustRegion(),
    HingeTrustRegion(estimator="k1"),
]


@pytest.mark.parametrize("objective", LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [50.0, -50.0, 300.0])
def test_everything_is_finite_far_away(objective, dtype, gap):
    rows = [list(range(10)), [10]]
    old = torch.zeros(11, dtype=dtype)
    batch = batch_of(rows, behaviour=old, reference=old, advantage=torch.ones(11, dtype=dtype))
    value, gradient = value_and_gradient(total_of(objective, batch), old + gap)
    assert bool(value.isfinite())
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("objective", LOSSES, ids=repr)
def test_nothing_counted_is_no_loss(objective):
    batch = batch_of([[0], [1]], behaviour=doubles(0, 0), reference=doubles(0, 0), weight=doubles(0, 0))
    value, gradient = value_and_gradient(total_of(objective, batch), doubles(-1, -2))
    assert float(value) == 0
    assert not gradient.any()


def test_a_missing_reference_is_named():
    batch = batch_of([[0]], behaviour=doubles(0))
    with pytest.raises(HocketError, match="reference"):
        AdvantageRegression(against="reference")(Evaluation(doubles(0)), batch)


@pytest.mark.parametrize(
    ("kind", "given_settings"),
    [
        (AdvantageRegression, {"temperature": 0.0}),
        (AdvantageRegression, {"coefficient": -1.0}),
        (AdvantageRegression, {"against": "proximal"}),
        (LogRatioPenalty, {"level": "turn"}),
        (LogRatioPenalty, {"coefficient": -1.0}),
        (KLToOld, {"root": 0.0}),
        (HingeTrustRegion, {"radius": -1.0}),
        (HingeTrustRegion, {"estimator": "k2"}),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, given_settings):
    with pytest.raises(ValueError, match=next(iter(given_settings))):
        kind(**given_settings)

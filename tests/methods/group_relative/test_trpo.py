"""Conjugate gradients, and steps within a trust region."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from core_cases import sums_world, uneven_bench
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.methods.group_relative.claims.trpo import problem_of
from hocket.methods.group_relative.trpo import (
    TrustRegionStep,
    acting_weights,
    conjugate_gradient,
    fisher_vector,
    flat,
    policy_before,
    write,
)
from hocket.objectives.drift import DriftSurrogate
from hocket.recipes import find


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 8))
def test_conjugate_gradients_solve_as_many_equations_as_steps(seed, size):
    noise = Key.of(seed).numpy()
    root = torch.from_numpy(noise.normal(size=(size, size)))
    matrix = root @ root.T + torch.eye(size).double()
    target = torch.from_numpy(noise.normal(size=size))
    found = conjugate_gradient(lambda v: matrix @ v, target, 2 * size, 1e-28)
    torch.testing.assert_close(found, torch.linalg.solve(matrix, target), rtol=1e-6, atol=1e-8)


def test_nothing_to_solve_is_nothing():
    assert not conjugate_gradient(lambda v: v, torch.zeros(3).double(), 5).any()
    assert not conjugate_gradient(lambda v: 0 * v, torch.ones(3).double(), 5).any()


def test_the_kl_of_every_step_is_within_the_radius_and_the_critic_learns():
    run = uneven_bench(**{"update.radius": 0.004})
    values = run.policy.module.values.detach().clone()
    run.run(10)
    assert all(row["update/kl"] <= 0.004 for row in run.history)
    assert sum(row["update/kl"] > 0 for row in run.history) >= 8
    assert not torch.equal(run.policy.module.values.detach(), values)
    assert run.success() > run.readings[0].success


SHORT = {"update.radius": 1e-6, "update.damping": 0.0, "update.iterations": 30}
"""Far inside the quadratic regime; here the whole step is a hair too long."""


def test_a_step_that_cannot_keep_to_the_radius_changes_nothing_of_the_policy():
    run = uneven_bench(**SHORT, **{"update.trials": 1})
    before = run.policy.logits.detach().clone()
    run.step()
    assert run.history[0]["update/skipped"] == 1.0
    assert torch.equal(run.policy.logits.detach(), before)


def test_the_step_has_the_predicted_length():
    run = uneven_bench(**SHORT)
    run.step()
    shortened = 0.25 ** (run.history[0]["update/trials"] - 1)
    assert run.history[0]["update/kl"] == pytest.approx(1e-6 * shortened, rel=0.02)


def test_without_a_critic_there_is_no_critic_step():
    recipe = find("grpo").but(objective=DriftSurrogate(aggregate="token-mean"), update=TrustRegionStep())
    run = Bench(sums_world(), recipe, seed=0)
    run.run(3)
    assert "update/gradients" not in run.history[0]
    assert run.history[0]["update/kl"] > 0


@pytest.mark.parametrize("twice", [True, False])
def test_both_ways_to_a_fisher_vector_product_agree(twice):
    run = uneven_bench()
    batch = run.step().batch
    problem = problem_of(run.learner, batch)
    acting = acting_weights(problem)
    vector = torch.from_numpy(Key.of(1).numpy().normal(size=run.policy.logits.numel()))
    run.policy.twice_differentiable = twice
    start = flat(acting, acting).detach().clone()
    found = fisher_vector(problem, vector, policy_before(problem), acting)
    assert torch.equal(flat(acting, acting).detach(), start)
    chance = torch.softmax(run.policy.logits.detach(), -1)
    rows = np.concatenate([np.asarray(seen) for seen in batch.observation])
    expected = torch.zeros_like(chance)
    for row in rows.tolist():
        part = vector.view_as(chance)[row]
        expected[row] += chance[row] * (part - (chance[row] * part).sum()) / len(rows)
    torch.testing.assert_close(found, expected.reshape(-1), rtol=1e-5, atol=1e-7)


def test_a_vector_is_written_where_it_was_read():
    weights = [torch.zeros(2, 3), torch.zeros(4)]
    write(torch.arange(10.0), weights)
    assert flat(weights, weights).tolist() == list(range(10))
    assert flat([None, weights[1]], weights)[:6].tolist() == [0.0] * 6


@pytest.mark.parametrize("changes", [{"radius": 0.0}, {"backtrack": 1.0}, {"trials": 0}, {"epochs": 0}])
def test_trust_region_settings_are_checked(changes):
    with pytest.raises(ValueError, match="must"):
        TrustRegionStep(**changes)

"""Conjugate gradients, and steps within a trust region."""

from __future__ import annotations

import pytest
import torch
from core_cases import sums_world, uneven_bench

from hocket.lab.bench import Bench
from hocket.methods.group_relative.trpo import (
    TrustRegionStep,
    conjugate_gradient,
    flat,
    write,
)
from hocket.objectives.drift import DriftSurrogate
from hocket.recipes import find


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


def test_a_vector_is_written_where_it_was_read():
    weights = [torch.zeros(2, 3), torch.zeros(4)]
    write(torch.arange(10.0), weights)
    assert flat(weights, weights).tolist() == list(range(10))
    assert flat([None, weights[1]], weights)[:6].tolist() == [0.0] * 6


@pytest.mark.parametrize("changes", [{"radius": 0.0}, {"backtrack": 1.0}, {"trials": 0}, {"epochs": 0}])
def test_trust_region_settings_are_checked(changes):
    with pytest.raises(ValueError, match="must"):
        TrustRegionStep(**changes)

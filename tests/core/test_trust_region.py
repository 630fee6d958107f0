"""Second-order steps, slow-fast steps, and steps under masks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.world import World
from hocket.methods.group_relative.claims.trpo import problem_of
from hocket.methods.group_relative.sfpo import SlowFastStep, entropy_alarm
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
from hocket.policies.masking import allowed_at
from hocket.recipes import find
from hocket.rollout.nucleus import DELAYED, nucleus

torch.set_num_threads(1)


def world():
    return World(questions=2, tokens=3, horizon=2, reward=lambda question, answer: float(sum(answer) % 3 == question))


def bench(recipe="trpo", **changes):
    base = find(recipe).but({"rollout.samples": 8, **changes})
    return Bench(world(), base, seed=0, start=lambda policy: policy.logits.copy_(uneven(policy.logits)))


def uneven(like):
    return torch.from_numpy(Key.of(6).numpy().normal(size=tuple(like.shape)))


# ---------------------------------------------------------------- conjugate gradients


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


# ---------------------------------------------------------------- trust regions


def test_the_kl_of_every_step_is_within_the_radius_and_the_critic_learns():
    run = bench(**{"update.radius": 0.004})
    values = run.policy.module.values.detach().clone()
    run.run(10)
    assert all(row["update/kl"] <= 0.004 for row in run.history)
    assert sum(row["update/kl"] > 0 for row in run.history) >= 8
    assert not torch.equal(run.policy.module.values.detach(), values)
    assert run.success() > run.readings[0].success


SHORT = {"update.radius": 1e-6, "update.damping": 0.0, "update.iterations": 30}
"""Far inside the quadratic regime; here the whole step is a hair too long."""


def test_a_step_that_cannot_keep_to_the_radius_changes_nothing_of_the_policy():
    run = bench(**SHORT, **{"update.trials": 1})
    before = run.policy.logits.detach().clone()
    run.step()
    assert run.history[0]["update/skipped"] == 1.0
    assert torch.equal(run.policy.logits.detach(), before)


def test_the_step_has_the_predicted_length():
    run = bench(**SHORT)
    run.step()
    shortened = 0.25 ** (run.history[0]["update/trials"] - 1)
    assert run.history[0]["update/kl"] == pytest.approx(1e-6 * shortened, rel=0.02)


def test_without_a_critic_there_is_no_critic_step():
    recipe = find("grpo").but(objective=DriftSurrogate(aggregate="token-mean"), update=TrustRegionStep())
    run = Bench(world(), recipe, seed=0)
    run.run(3)
    assert "update/gradients" not in run.history[0]
    assert run.history[0]["update/kl"] > 0


@pytest.mark.parametrize("twice", [True, False])
def test_both_ways_to_a_fisher_vector_product_agree(twice):
    run = bench()
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


# ---------------------------------------------------------------- slow and fast


def test_an_alarmed_run_makes_the_steps_of_grpo():
    alarmed, plain = bench("sfpo"), bench("grpo")
    alarmed.learner.memory["update"] = {"entropies": [], "alarmed": True}
    alarmed.run(3)
    plain.run(3)
    assert torch.equal(alarmed.policy.logits.detach(), plain.policy.logits.detach())


def test_it_remembers_the_entropies_of_a_window():
    run = bench("sfpo", **{"update.window": 4, "update.threshold": 100.0})
    run.run(6)
    memory = run.learner.memory["update"]
    assert len(memory["entropies"]) == 4
    assert memory["entropies"] == pytest.approx([row["entropy"] for row in run.history[-4:]], rel=1e-6)
    assert memory["alarmed"] is False


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=12), st.integers(1, 12))
def test_the_alarm_is_a_z_score(entropies, window):
    found = entropy_alarm(entropies, window, 1.0)
    if len(entropies) < window:
        assert not found
        return
    last = np.array(entropies[-window:])
    score = (last[-1] - last.mean()) / (last.std() + 1e-9)
    assert found == (score >= 1.0) or abs(score - 1.0) < 1e-9


@pytest.mark.parametrize("changes", [{"fast": 0}, {"alpha": 1.1}, {"window": -1}, {"moments": "lost"}])
def test_slow_fast_settings_are_checked(changes):
    with pytest.raises(ValueError, match="must"):
        SlowFastStep(**changes)


# ---------------------------------------------------------------- masks


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 9), mass=st.floats(0.01, 1.0))
def test_a_nucleus_is_the_smallest_set_with_its_mass(seed, size, mass):
    logp = torch.log_softmax(torch.from_numpy(Key.of(seed).numpy().normal(size=(3, size))), -1)
    chance = logp.exp()
    for row, kept in zip(chance, nucleus(logp, mass), strict=True):
        inside = float(row[kept].sum())
        assert inside >= mass - 1e-9 or bool(kept.all())
        assert bool(kept.any())
        if mass < 1 and int(kept.sum()) > 1:
            assert inside - float(row[kept].min()) < mass + 1e-9
        if not bool(kept.all()):
            assert float(row[kept].min()) >= float(row[~kept].max())


def test_masks_belong_to_their_decisions_and_the_copy_is_refreshed_on_time():
    run = bench("nlpo", **{"rollout.mass": 0.6, "update.every": 2})
    batch = run.step().batch
    found = allowed_at(batch, torch.arange(batch.decisions), 3)
    assert bool(found.gather(1, batch.action[:, None]).all())
    assert not bool(found.all())
    backwards = torch.arange(batch.decisions).flip(0)
    assert torch.equal(allowed_at(batch, backwards, 3), found.flip(0))
    assert allowed_at(batch.but(allowed=()), backwards, 3) is None
    held = run.policy.module.copies[DELAYED].clone()
    assert not torch.equal(held, run.policy.logits.detach())
    run.step()
    assert torch.equal(run.policy.module.copies[DELAYED], run.policy.logits.detach())
    assert [row["mask/refreshed"] for row in run.history] == [0.0, 1.0]


def test_the_kl_charge_follows_its_target():
    near, far = (bench("nlpo", **{"shaping.0.target": target}).run(3) for target in (1e-9, 1e3))
    assert near.learner.memory["shaping.0"]["coefficient"] == pytest.approx(0.1, rel=0.07)
    assert far.learner.memory["shaping.0"]["coefficient"] == pytest.approx(0.1 * 0.98**3)


def test_a_table_keeps_its_copy_on_disk(tmp_path):
    run = bench("nlpo", **{"rollout.mass": 0.6})
    run.step()
    run.policy.save(tmp_path)
    other = bench("nlpo")
    other.policy.load(tmp_path)
    assert torch.equal(other.policy.module.copies[DELAYED], run.policy.module.copies[DELAYED])
    assert not torch.equal(other.policy.module.copies[DELAYED], other.policy.logits.detach())

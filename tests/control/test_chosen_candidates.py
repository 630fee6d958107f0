"""Actions that a critic chose among samples: no density, greedy play that repeats, copies and files of policies."""

import math

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.drawn_rows import policy_of
from hocket.methods.generative.expo_expressive.method import EXPO_EXPRESSIVE as EXPO
from hocket.methods.generative.expo_expressive.method import OnTheFlyValues
from hocket.methods.generative.expo_expressive.world import STRIDE, TwoDoors, moved
from hocket.methods.generative.fisor.method import FISOR, FeasibilityLoss
from hocket.methods.generative.fisor.world import HazardCourse, HazardPoint, driven, inside
from hocket.policies.value_heads import ChosenCandidate
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.types import Scenario, Trajectory, Turn

BOTH = pytest.mark.parametrize("recipe", [EXPO, FISOR], ids=lambda one: one.name)


def played(policy, rows=5, *, temperature=1.0):
    seen = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
    uniforms = Key.of(0).numpy().uniform(0.01, 0.99, (rows, policy.draws))
    return policy.sample(seen, uniforms, np.full(rows, temperature, np.float32))


def test_what_has_no_density_has_no_entropy_and_no_kl():
    head = ChosenCandidate(torch.ones(2), lambda normals: normals.cumsum(1), 3)
    assert head.mode().tolist() == [[1.0, 2.0]] * 3
    assert head.draw(torch.full((3, 2), 0.5)).tolist() == [[0.0, 0.0]] * 3
    assert head.tempered(torch.full((3,), 2.0)) is head
    assert head.logp(head.mode()).tolist() == [0.0] * 3
    for call in (head.entropy, lambda: head.kl(head)):
        with pytest.raises(ConfigurationError, match="no density"):
            call()


@BOTH
def test_greedy_play_repeats_and_other_play_does_not(recipe):
    policy = policy_of(recipe, discrete=False)
    greedy = played(policy, temperature=0.0)[0]
    assert np.array_equal(greedy, played(policy, temperature=0.0)[0])
    assert not np.array_equal(greedy, played(policy)[0])
    assert np.abs(played(policy)[0]).max() <= 1


@BOTH
def test_a_copy_chooses_by_its_own_critics_and_a_file_keeps_all(recipe, tmp_path):
    policy, other = policy_of(recipe, discrete=False), policy_of(recipe, discrete=False, seed=1)
    held, before = policy.frozen_copy(), played(policy)[0]
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.mul_(-1.5)
    assert np.array_equal(played(held)[0], before)
    assert not np.array_equal(played(policy)[0], before)
    held.save(tmp_path)
    other.load(tmp_path)
    assert np.array_equal(played(other)[0], before)


def test_fresh_decisions_are_recorded_without_log_probs():
    world = tasks.find("two-doors:point?length=6")
    small = {"network.hidden": [8, 8], "store.rows": 8, "curriculum.prompts": 1, "store.ratio": 0.5}
    parts = build_parts(configure([("task", "two-doors:point"), ("recipe", EXPO), *small.items()], world), world)
    result = run_async(train_step(parts, 1))
    assert not result.batch.logp["behaviour"].present.any()
    assert math.isnan(result.metrics["entropy"])
    assert result.metrics["update/gradients"] == 3
    assert math.isfinite(result.metrics["actor/imitation"])


def test_walls_slide_and_doors_let_through():
    place = np.array([[-0.05, 0.0], [-0.05, 0.5], [0.05, -0.5], [-0.05, -0.2]])
    after = moved(place, np.array([[1.0, 0.5], [1.0, 0.0], [-2.0, 0.0], [1.0, -1.0]]))
    np.testing.assert_allclose(after, [[-0.05, 0.05], [0.05, 0.5], [0.05 - STRIDE, -0.5], [-0.05, -0.3]])


def test_violations_are_what_decisions_led_to():
    world, point = HazardCourse(), HazardPoint(40)
    seen, passed = [point.reset(3)], []
    for _ in range(20):
        after, *_ = point.step(driven(point.state[None], np.zeros(1))[0])
        passed.append(after)
    turn = Turn("agent", "policy", np.stack([*seen, *passed[:-1]]), np.zeros((20, 2), np.float32))
    shown = world.describe(Trajectory(Scenario("s"), [turn], final_state=passed[-1]))
    count = int(inside(np.stack(passed).astype(np.float64)).sum())
    assert count > 0
    assert shown == {"violations": count, "safe": 0.0}


def test_settings_out_of_range_are_refused():
    for make in (lambda: OnTheFlyValues(samples=0), lambda: OnTheFlyValues(box=0.0), lambda: FeasibilityLoss(tau=1.0)):
        with pytest.raises(ValueError, match="must"):
            make()
    for make in (lambda: TwoDoors(length=0), lambda: HazardCourse(length=0)):
        with pytest.raises(ConfigurationError, match="at least 1"):
            make()
    with pytest.raises(ConfigurationError, match=r"vectors of real numbers"):
        policy_of(EXPO, discrete=True)

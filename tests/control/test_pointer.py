"""The pointer: one pass for a whole episode, rows in any order and number, several at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.apps.use.onnx import write_onnx
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control import ControlPolicy
from hocket.policies.control_pointer import Communication, Pointers, Profiles
from hocket.policies.settings import NetworkSettings
from hocket.types import Quantity

SETTINGS = NetworkSettings(body="pointer", hidden=(16, 16))
ONE, SEVERAL = "routes:tsp?places=7", "routes:profiles?places=6&vehicles=3"


def _policy(name, *parts, settings=SETTINGS):
    task = tasks.find(name)
    policy = ControlPolicy(task.spaces(task.world.agents), key=Key.of(3), network=settings)
    for part in parts:
        policy.attach(part)
    return policy, task.world


def _played(policy, world, count=4):
    """What is seen at every decision `[U, L, I]`, and outputs there `[U, L, A]`, of sampled episodes."""
    course, live, draw = world.open(count), np.ones(count, bool), Key.of(1).numpy()
    course.reset(range(count), range(count))
    carried, seen, outputs, lives = np.zeros((count, policy.carries), np.float32), [], [], []
    while live.any():
        rows = course.seen()[0]
        with torch.no_grad():
            outputs.append(policy.module.actor.step(torch.from_numpy(rows), torch.from_numpy(carried))[0])
        uniforms = draw.random((count, policy.draws))
        action, _ = policy.sample(rows, uniforms, np.ones(count, np.float32), course.allowed()[0], carried)
        seen.append(torch.from_numpy(rows))
        lives.append(torch.from_numpy(live))
        live = live & ~course.step([action], live).terminated[:, 0]
    return torch.stack(seen, 1), torch.stack(outputs, 1), torch.stack(lives, 1)


@pytest.mark.parametrize(
    ("name", "parts"),
    [(ONE, ()), (SEVERAL, ()), (SEVERAL, (Communication(),)), (SEVERAL, (Profiles(), Communication()))],
)
def test_one_pass_over_an_episode_gives_what_its_decisions_gave(name, parts):
    policy, world = _policy(name, *parts)
    seen, outputs, live = _played(policy, world)
    with torch.no_grad():
        assert torch.allclose(policy.module.actor(seen)[live], outputs[live], atol=1e-5)
    policy.require(frozenset({Quantity.VALUE}))
    assert policy.module.critic(seen).shape == (*seen.shape[:2], 1)


def test_rows_are_encoded_once_in_an_episode_and_once_for_samples_of_one_instance():
    policy, world = _policy(ONE)
    actor, sizes = policy.module.actor, []
    encoded = actor.encoded
    actor.encoded = lambda rows: sizes.append(len(rows)) or encoded(rows)
    seen, _, _ = _played(policy, world)
    assert sizes == [16, 16]  # Once by the test, once by the policy; blocks of 16 whoever begins.
    actor(seen.repeat_interleave(8, 0))
    assert sizes[2:] == [4]


def test_scores_move_with_their_rows():
    policy, world = _policy(ONE)
    slots, actor = world.slots, policy.module.actor
    seen = _played(policy, world)[0][:, :1]
    order = torch.tensor([0, 3, 1, 2, 6, 5, 4])
    rows = seen[..., slots.own :].unflatten(-1, (slots.count, slots.size))
    moved = torch.cat([seen[..., : slots.own], rows[..., order, :].flatten(-2)], -1)
    with torch.no_grad():
        assert torch.allclose(actor(moved), actor(seen)[..., order], atol=1e-5)


def test_rows_that_hold_nothing_change_no_score():
    policy, world = _policy(ONE)
    slots, actor = world.slots, policy.module.actor
    seen = _played(policy, world)[0][:, :1]
    rows = seen[..., slots.own :].unflatten(-1, (slots.count, slots.size)).clone()
    rows[..., 5:, 0] = 0.0
    noisy = rows.clone()
    noisy[..., 5:, 1:] = 7.0
    scores = [
        actor(torch.cat([seen[..., : slots.own], some.flatten(-2)], -1))[..., :5].softmax(-1) for some in (rows, noisy)
    ]
    assert torch.allclose(*scores, atol=1e-5)


def test_weights_of_seven_rows_run_on_twelve(tmp_path):
    small, _ = _policy(ONE)
    small.require(frozenset({Quantity.VALUE}))
    small.save(tmp_path)
    large, world = _policy("routes:tsp?places=12")
    large.load(tmp_path)
    large.require(frozenset({Quantity.VALUE}))
    assert all(map(torch.equal, small.module.state_dict().values(), large.module.state_dict().values()))
    assert _played(large, world)[0].shape[1] == 11
    other, _ = _policy(SEVERAL)
    with pytest.raises(ConfigurationError, match="another network: own = 6"):
        other.load(tmp_path)


def test_actions_of_several_are_rows_and_ranks_of_their_probabilities():
    logits = torch.tensor([[0.0, 1.0, 2.0, 5.0, 0.0, 0.0]], dtype=torch.float64)
    head = Pointers((3, 3)).head(logits, torch.nn.Identity(), None, None)
    assert head.mode().tolist() == [[2, 0, 1, 0]]
    shares = np.exp([[0, 1, 2], [5, 0, 0]]) / np.exp([[0, 1, 2], [5, 0, 0]]).sum(1, keepdims=True)
    assert float(head.logp(torch.tensor([[1, 0, 1, 0]]))) == pytest.approx(np.log(shares[0, 1] * shares[1, 0]))
    assert head.draw(torch.tensor([[0.05, 0.999]])).tolist() == [[0, 2, 0, 1]]


def test_pointers_hear_each_other_only_if_they_communicate():
    for parts, heard in (((), False), ((Communication(),), True)):
        policy, world = _policy(SEVERAL, *parts)
        seen = _played(policy, world)[0][:, :1].clone().requires_grad_()
        policy.module.actor(seen)[..., : world.rows].sum().backward()  # Of the first vehicle.
        length_of_second = 1 + 5 + 2
        assert bool((seen.grad[..., length_of_second] != 0).any()) == heard


def test_profiles_are_read_by_their_own_pointer_alone():
    for parts, apart in (((), False), ((Profiles(),), True)):
        policy, world = _policy(SEVERAL, *parts)
        slots = world.slots
        seen = _played(policy, world)[0][:, :1].clone().requires_grad_()
        policy.module.actor(seen)[..., : world.rows].square().sum().backward()
        rows = seen.grad[..., slots.own :].unflatten(-1, (slots.count, slots.size))
        assert bool((rows[..., 1 + 3] != 0).any())
        assert bool((rows[..., 1 + 4 : 1 + 6] == 0).all()) == apart


def test_a_pointer_is_no_onnx_file(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be written as ONNX"):
        write_onnx(_policy(ONE)[0], None, tmp_path / "policy.onnx", {})


@pytest.mark.parametrize(
    ("name", "settings", "parts", "problem"),
    [
        ("mpe:spread?graph=true", SETTINGS, (), "an action is no row"),
        (ONE, NetworkSettings(body="pointer", hidden=(16, 16), normalise=True), (), "drop network.normalise"),
        (ONE, NetworkSettings(body="pointer", hidden=(16, 8)), (), "layers of one width"),
        (ONE, SETTINGS, (Communication(),), "needs several pointers"),
        ("routes:minmax", SETTINGS, (Profiles(),), "profiles of their own"),
    ],
)
def test_what_does_not_go_together_is_refused(name, settings, parts, problem):
    with pytest.raises(ConfigurationError, match=problem):
        _policy(name, *parts, settings=settings)

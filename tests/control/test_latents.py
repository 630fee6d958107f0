"""A latent before the first decision, and genetic search from a policy's solutions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.applications.compass_latent_search import LatentHead, rollouts, search_latent
from hocket.methods.applications.earli import improved, policy_orders, random_orders
from hocket.policies.control import ControlPolicy
from hocket.policies.control_heads import Categorical
from hocket.policies.settings import NetworkSettings
from hocket.zoo.joint.route_oracles import checked_cost


def _policy(name):
    task = tasks.find(name)
    settings = NetworkSettings(body="pointer", hidden=(16, 16))
    return ControlPolicy(task.spaces(task.world.agents), key=Key.of(3), network=settings), task.world


def test_a_latent_is_drawn_evenly_and_has_no_density():
    logits = torch.tensor([[0.0, 1.0, -1e9]]).expand(500, 3)
    head = LatentHead(Categorical(logits), 4)
    action = head.draw(torch.from_numpy(Key.of(1).numpy().random((500, 5))))
    assert action.shape == (500, 5)
    assert action[:, 1:].abs().max() <= 1
    assert float(action[:, 1:].var()) == pytest.approx(1 / 3, abs=0.02)
    assert torch.equal(head.logp(action), Categorical(logits).logp(action[:, 0]))
    assert head.mode()[0].tolist() == [1, 0, 0, 0, 0]


def test_rollouts_with_latents_are_solutions_that_the_search_never_makes_worse():
    policy, world = _policy("routes:tsp?places=6&latent=3")
    best = search_latent(policy, world, 1, 12, Key.of(2), population=4)
    assert len(best) == 12
    assert (np.diff(best) >= 0).all()
    assert best[-1] <= world.oracle(1).value + 1e-9
    latents = np.array([[0.9, -0.9, 0.9], [0.9, -0.9, 0.9], [-0.9, 0.9, -0.9]])
    found = rollouts(policy, world, [1, 1, 1], latents, None)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["routes:minmax?latent=3", "mpe:spread?latent=3"])
def test_a_latent_is_for_one_that_chooses_a_row(name):
    with pytest.raises(ConfigurationError, match="one agent that chooses a row"):
        tasks.find(name)


def test_the_search_begins_with_the_policys_solutions_and_ends_with_one():
    policy, world = _policy("routes:cvrp?places=7")
    instance = world.instance(1)
    orders = policy_orders(policy, world, 1, 5, Key.of(1))
    assert np.sort(orders, 1).tolist() == [list(range(1, 8))] * 5
    route, costs = improved(instance, orders, Key.of(2), generations=5, population=10)
    assert (np.diff(costs) <= 0).all()
    assert checked_cost(instance, [route]) == pytest.approx(costs[-1])
    with pytest.raises(ConfigurationError, match="ends after generations or seconds"):
        improved(instance, random_orders(instance, 4, Key.of(1)), Key.of(2))

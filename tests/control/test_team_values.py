"""Action values of teams: sums, monotone mixtures, critics of all agents; beside formulas written out in float64."""

import asyncio
import itertools
import math

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import FOLLOWING, GOES_ON, JOINT_THEN, TEAM_PAID
from hocket.lab.toys.drawn_rows import perceptron, reached
from hocket.lab.toys.team_rows import ACTIONS, policies_of, team_rows
from hocket.methods.base.dqn import DQN
from hocket.methods.base.qmix import QMIX
from hocket.methods.base.vdn import VDN
from hocket.policies.team_values import MonotoneMixer
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.learner import Learner
from hocket.train.loop import train_step

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def linear(policy, name):
    held = policy.module.state_dict()
    count = sum(key.startswith(f"{name}.weights.") for key in held)
    return [[held[f"{name}.{kind}.{n}"].double().numpy() for kind in ("weights", "biases")] for n in range(count)]


def network(policy, name, x):
    layers = linear(policy, name)
    for place, (weight, bias) in enumerate(layers):
        x = weight @ x + bias
        x = np.maximum(x, 0) if place < len(layers) - 1 else x
    return x


def mixed(policy, name, values, joint):
    """The mixer of one row, written out."""
    first = np.abs(network(policy, f"{name}.first", joint)).reshape(len(values), -1)
    hidden = values @ first + network(policy, f"{name}.shift", joint)
    hidden = np.where(hidden > 0, hidden, np.exp(hidden) - 1)
    return hidden @ np.abs(network(policy, f"{name}.last", joint)) + network(policy, f"{name}.value", joint)[0]


def by_hand(recipe, policy, batch):
    """The loss, row by row."""
    count, found = batch.trajectories, []
    column = {c.name: batch.annotations[c.name].double().numpy() for c in (FOLLOWING, GOES_ON, TEAM_PAID, JOINT_THEN)}
    weight = dict(zip(batch.occurrences.decision.tolist(), batch.occurrences.weight.tolist(), strict=True))
    for row in range(count):
        places = [agent * count + row for agent in range(3)]
        now, later = np.zeros(3), np.zeros(3)
        for agent, place in enumerate(places):
            if not weight[place]:
                continue
            seen = np.asarray(batch.observation[agent][row], np.float64)
            now[agent] = perceptron(policy, "actor.body", seen)[int(batch.action[place])]
            if column["goes_on"][place]:
                then = column["following"][place]
                best = perceptron(policy, "actor.body", then).argmax()
                later[agent] = perceptron(policy, "slow.body", then)[best]
        joint, joint_then = np.asarray(batch.joint[0][row], np.float64), column["joint_then"][places[0]]
        if recipe.name == "vdn":
            value, after = now.sum(), later.sum()
        else:
            value, after = mixed(policy, "mixer", now, joint), mixed(policy, "slow_mixer", later, joint_then)
        goes_on = max(column["goes_on"][place] for place in places)
        found.append((value - column["team_paid"][places[0]] - goes_on * after) ** 2)
    return np.mean(found)


@pytest.mark.parametrize("recipe", [VDN, QMIX], ids=lambda one: one.name)
@pytest.mark.parametrize("steps", [1, 2])
def test_the_loss_is_that_by_hand_in_float64(recipe, steps):
    recipe = recipe.but(**{"store.steps": steps})
    (policy,) = policies_of(recipe, shared=True, seed=steps).values()
    batch = team_rows(recipe, shared=True, seed=steps)
    assert (batch.occurrences.weight == 0).any()  # Some agents ended before the others.
    now = policy.evaluate(batch, recipe.needs)
    (loss,) = recipe.losses
    np.testing.assert_allclose(float(loss(now, batch).total().detach()), by_hand(recipe, policy, batch), **CLOSE)
    moved = reached(policy, loss(now, batch).total())
    assert moved == ({"actor"} if recipe.name == "vdn" else {"actor", "mixer"})
    part = batch.select(torch.tensor([0, 3, 7]))
    live = torch.unique(part.occurrences.decision[part.occurrences.weight != 0])
    some = policy.evaluate(part, recipe.needs, live)
    np.testing.assert_allclose(
        float(loss(some, part).total().detach()), by_hand_of(recipe, policy, batch, part), **CLOSE
    )


def by_hand_of(recipe, policy, batch, part):
    """The loss of some of the rows, which `select` has renumbered."""
    rows = [0, 3, 7]
    assert part.trajectories == 3
    whole = policy.evaluate(batch, recipe.needs)
    error = (whole.action_value[:, 0] - whole.backup).square().detach()
    weight = torch.zeros(batch.decisions)
    weight[batch.occurrences.decision] = batch.occurrences.weight
    count = batch.trajectories
    return np.mean([float(error[next(a * count + row for a in range(3) if weight[a * count + row])]) for row in rows])


def test_a_mixture_falls_in_no_agents_value():
    mixer = MonotoneMixer(4, 5, 8, Key.of(0)).double()
    rng = torch.Generator().manual_seed(0)
    values = torch.randn(50, 4, generator=rng, dtype=torch.float64).requires_grad_()
    joint = torch.randn(50, 5, generator=rng, dtype=torch.float64)
    (slope,) = torch.autograd.grad(mixer(values, joint).sum(), values)
    assert slope.min() >= 0
    assert slope.max() > 0.1
    other = mixer(values, torch.randn(50, 5, generator=rng, dtype=torch.float64))
    (moved,) = torch.autograd.grad(other.sum(), values)
    assert not torch.allclose(slope, moved)  # The joint state gives the weights.


@pytest.mark.parametrize("recipe", [VDN, QMIX], ids=lambda one: one.name)
def test_the_teams_best_action_is_each_agents_best_by_enumeration(recipe):
    (policy,) = policies_of(recipe, shared=True).values()
    batch = team_rows(recipe, shared=True)
    count = batch.trajectories
    live = torch.zeros(batch.decisions, dtype=torch.bool)
    live[batch.occurrences.decision] = batch.occurrences.weight != 0
    values = []
    joint = list(itertools.product(range(ACTIONS), repeat=3))
    for actions in joint:
        chosen = batch.but(action=torch.tensor(actions).repeat_interleave(count))
        values.append(policy.evaluate(chosen, recipe.needs).action_value[:, 0].detach())
    best = torch.stack(values).argmax(0)
    own = policy._head(policy.module.actor(policy.observed(batch))).values.argmax(1)
    for row in range(count):
        places = [agent * count + row for agent in range(3)]
        if live[places].all():
            assert list(joint[int(best[places[0]])]) == own[places].tolist()


def run(recipe, task, steps, **settings):
    world = tasks.find(task)
    given = [("recipe", recipe), ("network.hidden", [8]), ("store.begin", 0), ("store.rows", 8), *settings.items()]
    parts = build_parts(configure(given, world), world)
    return parts, [asyncio.run(train_step(parts, step)) for step in range(1, steps + 1)]


def test_a_step_makes_a_gradient_for_each_moment_of_the_team():
    parts, results = run(QMIX, "mpe:spread?agents=2&length=3", 2, **{"curriculum.prompts": 2})
    assert parts.store["rings"]["team"]["added"] == 12
    assert [result.metrics["update/gradients"] for result in results] == [6, 6]
    assert all(math.isfinite(result.metrics["loss"]) for result in results)
    assert results[0].metrics["agreement/largest"] < 1e-5


def test_slow_mixers_follow():
    (policy,) = policies_of(QMIX, shared=True).values()
    one = Learner(policy, QMIX.but(**{"update.follow_every": 2}), total_steps=9)
    batch = team_rows(QMIX, shared=True)
    for number in range(1, 5):
        one.learn_drawn(one.credit_drawn(batch, 1), Key.of(number), 1, 1)
        slow, learnt = policy.slow_parts()["slow_mixer"]
        same = all(torch.equal(a, b) for a, b in zip(slow, learnt, strict=True))
        assert same == (number % 2 == 0)


@pytest.mark.parametrize(
    ("recipe", "task", "settings", "message"),
    [
        (QMIX, "openspiel:tic_tac_toe?kind=control", {}, "offers none; use vdn"),
        (VDN, "mpe:spread?agents=2&length=3", {"cast": "separate"}, "set cast to shared"),
        (VDN, "gym:Pendulum-v1", {}, "a value for each of several choices"),
        (DQN, "mpe:spread?agents=2&length=3", {"objective": QMIX.objective}, "hocket.rollout.JointTransitions"),
    ],
    ids=["no joint state", "several policies", "vectors", "rows of one"],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(recipe, task, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        run(recipe, task, 1, **settings)

"""Action values of control policies: heads, quantities, slow copies, and losses beside Stable-Baselines3's formulas."""

import asyncio
import itertools
import math

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from torch.nn import functional

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.drawn_rows import critics, evaluated, numbers, perceptron, policy_of, reached, rows
from hocket.methods.base.ddpg import DDPG
from hocket.methods.base.dqn import DQN, DQN_DUELLING
from hocket.methods.base.iql import IQL
from hocket.methods.base.ppo import PPO
from hocket.methods.base.sac import SAC
from hocket.methods.base.td3 import TD3
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.policies.action_values import Critics
from hocket.policies.value_heads import EDGE, Greedy, NoisyAction, SquashedGaussian, UniformBox
from hocket.rollout.transitions import Transitions
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.learner import Learner
from hocket.train.loop import train_step
from hocket.types import Quantity

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def normal(seed, *shape):
    return torch.from_numpy(Key.of(seed).numpy().normal(size=shape))


# ---------------------------------------------------------------- heads


def test_a_squashed_gaussian_is_torchs():
    ours = SquashedGaussian(normal(0, 5, 3), 0.3 * normal(1, 5, 3))
    theirs = Independent(TransformedDistribution(Normal(ours.mean, ours.log_std.exp()), TanhTransform()), 1)
    action, logp = ours.reached(normal(2, 5, 3))
    torch.testing.assert_close(action, torch.tanh(ours.mean + ours.log_std.exp() * normal(2, 5, 3)))
    torch.testing.assert_close(logp, theirs.log_prob(action))
    torch.testing.assert_close(ours.logp(action), theirs.log_prob(action))


def test_the_ends_of_the_range_are_finite_in_float32_and_what_is_drawn_is_what_is_measured():
    far = SquashedGaussian(torch.tensor([[30.0], [-30.0], [0.0]]), torch.zeros(3, 1))
    action = far.draw(torch.full((3, 1), 0.5))
    assert action.abs().max() == EDGE < 1
    assert far.logp(action).isfinite().all()
    assert far.logp(torch.tensor([[1.0], [-1.0], [1.0]])).isfinite().all()
    drawn, logp = far.reached(torch.zeros(3, 1))
    assert logp.isfinite().all()
    assert drawn[0] == 1
    with pytest.raises(ConfigurationError, match="no entropy in closed form"):
        far.entropy()


def test_epsilon_greedy_probabilities_are_exact_and_never_leave_the_mask():
    values = normal(0, 6, 4)
    allowed = torch.tensor([[True, True, False, True]]).expand(6, 4)
    head = Greedy.of(values, 0.3, allowed)
    best = values.masked_fill(~allowed, -math.inf).argmax(1)
    for action in range(4):
        chosen = torch.full((6,), action)
        expected = torch.where(chosen == best, 0.7 + 0.1, 0.1) * allowed[:, action]
        torch.testing.assert_close(head.logp(chosen).exp(), expected.double(), check_dtype=False)
    assert torch.equal(head.mode(), best)
    drawn = torch.stack([head.draw(torch.full((6, 1), (n + 0.5) / 2000)) for n in range(2000)])
    assert not (drawn == 2).any()
    assert float((drawn == best).double().mean()) == pytest.approx(0.8, abs=1e-3)
    greedy = Greedy.of(values, 0.0, None)
    assert torch.equal(greedy.draw(torch.rand(6, 1, generator=torch.Generator().manual_seed(0))), values.argmax(1))


def test_noise_and_uniform_starts_have_exact_log_probs():
    outputs = normal(0, 4, 2)
    head = NoisyAction.of(outputs, 0.1)
    action = head.draw(torch.full((4, 2), 0.9))
    theirs = Independent(Normal(torch.tanh(outputs), 0.1), 1)
    torch.testing.assert_close(head.logp(action), theirs.log_prob(action))
    box = UniformBox(torch.tanh(outputs))
    assert box.logp(action).exp().tolist() == pytest.approx([0.25] * 4)
    assert torch.equal(box.mode(), torch.tanh(outputs))


# ---------------------------------------------------------------- losses


def test_a_stack_of_critics_is_its_critics_one_by_one():
    stack = Critics(3, (5, 7, 1), activation="relu", key=Key.of(0))
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    for number in range(3):
        held = zip(stack.weights, stack.biases, strict=True)
        (first, shift), (last, lift) = ((weight[number], bias[number]) for weight, bias in held)
        torch.testing.assert_close(stack(x)[:, number], (torch.relu(x @ first + shift) @ last + lift)[:, 0])


def by_hand(name, policy, held):
    """Losses in float64, written as Stable-Baselines3 writes them."""
    value = torch.from_numpy
    target_of = value(held["paid"]), value(held["goes_on"])
    if name.startswith("dqn"):

        def q(network, seen):
            out = perceptron(policy, network, seen)
            return out if name == "dqn" else out[:, :1] + out[:, 1:] - out[:, 1:].mean(1, keepdims=True)

        best = q("actor.body", held["following"]).argmax(1)
        then = np.take_along_axis(q("slow.body", held["following"]), best[:, None], 1)[:, 0]
        present = np.take_along_axis(q("actor.body", held["seen"]), held["action"].astype(int)[:, None], 1)[:, 0]
        return [functional.smooth_l1_loss(value(present), target_of[0] + target_of[1] * value(then))]
    action = np.tanh(perceptron(policy, "slow_actor.body", held["following"]))
    if name == "td3":
        action = np.clip(action + np.clip(0.2 * held["noise"][:, 1], -0.5, 0.5), -1, 1)
    then = value(critics(policy, "slow", held["following"], action)).min(1).values
    target = target_of[0] + target_of[1] * then
    present = value(critics(policy, "critics", held["seen"], held["action"]))
    fresh = np.tanh(perceptron(policy, "actor.body", held["seen"]))
    lead = value(critics(policy, "critics", held["seen"], fresh))[:, 0]
    return [sum(functional.mse_loss(present[:, k], target) for k in range(present.shape[1])), -lead.mean()]


@pytest.mark.parametrize("recipe", [DQN, DQN_DUELLING, DDPG, TD3], ids=lambda one: one.name)
@pytest.mark.parametrize("steps", [1, 3])
def test_losses_are_those_by_hand_in_float64(recipe, steps):
    recipe = recipe.but(**{"store.steps": steps})
    discrete = recipe.name.startswith("dqn")
    policy, batch = policy_of(recipe, discrete=discrete, seed=steps), rows(recipe, discrete=discrete, seed=steps)
    _, losses = evaluated(recipe, policy, batch)
    expected = [float(one) for one in by_hand(recipe.name, policy, numbers(batch))]
    np.testing.assert_allclose(list(losses.values()), expected, **CLOSE)


def test_implicit_q_learning_is_its_formula_and_evaluates_recorded_actions_alone():
    policy, batch = policy_of(IQL, discrete=False), rows(IQL, discrete=False)
    held, tau = numbers(batch), 0.7
    value, later = (
        critics(policy, "state_value", held[name], np.zeros((32, 0)))[:, 0] for name in ("seen", "following")
    )
    best = critics(policy, "slow", held["seen"], held["action"]).min(1)
    present = critics(policy, "critics", held["seen"], held["action"])
    mean, log_std = np.split(perceptron(policy, "actor.body", held["seen"]), 2, 1)
    log_std = np.clip(log_std, -5, 2)
    logp = (-0.5 * ((held["action"] - np.tanh(mean)) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)
    expected = [
        ((present - (held["paid"] + held["goes_on"] * later)[:, None]) ** 2).sum(1).mean(),
        (np.where(best < value, 1 - tau, tau) * (best - value) ** 2).mean(),
        -(np.minimum(np.exp(3 * (best - value)), 100) * logp).mean(),
    ]
    now, losses = evaluated(IQL, policy, batch)
    np.testing.assert_allclose(list(losses.values()), expected, **CLOSE)
    moved = [reached(policy, loss(now, batch).total()) for loss in IQL.losses]
    assert moved == [frozenset({"critics"}), frozenset({"state_value"}), frozenset({"actor"})]


def test_forbidden_actions_are_not_backed_up():
    policy, batch = policy_of(DQN, discrete=True), rows(DQN, discrete=True)
    allowed = torch.zeros(batch.decisions, 3, dtype=torch.bool)
    allowed[:, 1] = True
    batch = batch.but(annotations={**batch.annotations, "allowed_then": allowed})
    held = numbers(batch)
    expected = held["paid"] + held["goes_on"] * perceptron(policy, "slow.body", held["following"])[:, 1]
    backup = policy.evaluate(batch, {Quantity.BACKUP}).backup
    np.testing.assert_allclose(backup.numpy(), expected, **CLOSE)


@pytest.mark.parametrize("recipe", [SAC, TD3, DQN], ids=lambda one: one.name)
def test_mini_batches_and_parts_of_a_batch_have_the_same_numbers(recipe):
    discrete = recipe is DQN
    policy, batch = policy_of(recipe, discrete=discrete), rows(recipe, discrete=discrete)
    whole = policy.evaluate(batch, recipe.needs)
    parts = list(torch.arange(32).split(8))
    for part, dealt in zip(parts, batch.deal(parts), strict=True):
        now, some = policy.evaluate(dealt, recipe.needs), policy.evaluate(batch, recipe.needs, part)
        for need in recipe.needs:
            torch.testing.assert_close(now.get(need), whole.get(need)[part])
            torch.testing.assert_close(some.get(need)[part], whole.get(need)[part])


# ---------------------------------------------------------------- updates


def learner(recipe, **edits):
    policy = policy_of(recipe, discrete=recipe.name.startswith("dqn"))
    return Learner(policy, recipe.but(**edits) if edits else recipe, total_steps=10)


def flat(weights):
    return torch.cat([weight.detach().flatten() for weight in weights])


@pytest.mark.parametrize(("rate", "every"), [(0.25, 1), (1.0, 3)])
def test_slow_copies_follow_after_so_many_gradients(rate, every):
    one = learner(SAC, **{"update.rate": rate, "update.follow_every": every})
    slow, learnt = one.policy.slow_parts()["slow"]
    batch, before = rows(SAC, discrete=False), flat(slow)
    for number in range(1, 7):
        one.learn_drawn(one.credit_drawn(batch, 1), Key.of(number), 1, 1)
        if number % every == 0:
            before = torch.lerp(before, flat(learnt), rate)
        torch.testing.assert_close(flat(slow), before)
    assert one.optimiser.state_dict()["param_groups"][0]["steps"] == 6


def test_the_delayed_actor_moves_with_every_second_gradient():
    one, batch = learner(TD3), rows(TD3, discrete=False)
    actors = [flat(one.policy.parts()["actor"])]
    for number in range(4):
        one.learn_drawn(one.credit_drawn(batch, 1), Key.of(number), 1, 1)
        actors.append(flat(one.policy.parts()["actor"]))
    assert [torch.equal(a, b) for a, b in itertools.pairwise(actors)] == [True, False, True, False]


def test_weights_of_rows_weigh_their_losses():
    policy, batch = policy_of(DQN, discrete=True), rows(DQN, discrete=True)
    weight = torch.linspace(0.1, 1, 32)
    now = policy.evaluate(batch, DQN.needs)
    error = functional.smooth_l1_loss(now.action_value[:, 0], now.backup, reduction="none")
    total = DQN.objective(now, batch.credited(weight=weight)).total()
    torch.testing.assert_close(total, (weight * error).mean())


# ---------------------------------------------------------------- steps


def run(recipe, task, steps, **settings):
    world = tasks.find(task)
    given = [("recipe", recipe), ("network.hidden", [8]), ("store.begin", 0), ("store.rows", 8), *settings.items()]
    parts = build_parts(configure(given, world), world)
    return parts, [asyncio.run(train_step(parts, step)) for step in range(1, steps + 1)]


@pytest.mark.parametrize(
    ("recipe", "task"),
    [(DQN, "gym:CartPole-v1?max_episode_steps=15"), (SAC, "gym:Pendulum-v1?max_episode_steps=15")],
    ids=["dqn", "sac"],
)
def test_a_step_makes_a_gradient_for_each_decision_and_compares_sampler_and_learner_before(recipe, task):
    parts, results = run(recipe, task, 3)
    decisions = sum(int(result.metrics["tokens/generated"]) for result in results)
    assert sum(result.metrics["update/gradients"] for result in results) == decisions
    assert parts.store["rings"]["policy"]["added"] == decisions
    for result in results:
        assert result.metrics["agreement/largest"] < 1e-5
        assert math.isfinite(result.metrics["loss"])
        assert result.metrics["update/skipped"] == 0
    assert float(parts.lead.policy.module.actor.decisions) == decisions


def test_prioritised_draws_learn_what_errors_were():
    parts, _ = run(DQN, "gym:CartPole-v1?max_episode_steps=15", 2, **{"store.take": "prioritised", "store.draws": 4})
    ring = parts.store["rings"]["policy"]
    held = ring["tree"].priorities[: ring["added"]]
    assert len(np.unique(held)) > 10
    assert (held > 0).all()


def test_a_team_learns_from_one_store():
    parts, results = run(DQN, "dilemma:prisoners?rounds=5", 2, cast="separate")
    assert set(parts.store["rings"]) == set(parts.learners)
    assert len(parts.learners) == 2
    assert all(math.isfinite(results[1].metrics[f"{name}/loss"]) for name in parts.learners)


def test_a_step_that_brings_nothing_learns_from_what_is_kept():
    from hocket.train.store_step import learn_stored

    parts, _ = run(DQN, "gym:CartPole-v1?max_episode_steps=15", 1, **{"store.gradients_per_step": 5})
    before = flat(parts.lead.policy.parts()["actor"])
    batch, metrics = learn_stored(parts, parts.lead.recipe.store, None, frozenset(parts.learners), Key.of(0), 2)
    assert batch is None
    assert metrics["update/gradients"] == 5
    assert not torch.equal(before, flat(parts.lead.policy.parts()["actor"]))


def test_exploration_ends_and_a_saved_policy_goes_on_where_it_was(tmp_path):
    recipe = DQN.but(**{"objective.values.over": 100})
    policy = policy_of(recipe, discrete=True)
    form, actor = policy.action_form, policy.module.actor
    found = []
    for decisions in (0, 50, 100, 1000):
        actor.decisions.fill_(decisions)
        found.append(float(form.epsilon(actor)))
    assert found == pytest.approx([1.0, 0.525, 0.05, 0.05])
    actor.decisions.fill_(70)
    policy.save(tmp_path)
    other = policy_of(recipe, discrete=True, seed=1)
    other.load(tmp_path)
    assert float(other.module.actor.decisions) == 70
    assert torch.equal(flat(other.module.parameters()), flat(policy.module.parameters()))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("recipe", "task", "settings", "message"),
    [
        (DQN, "gym:Pendulum-v1", {}, "sac"),
        (SAC, "gym:CartPole-v1", {}, "dqn"),
        (SAC, "gym:Pendulum-v1", {"network.body": "recurrent", "network.activation": "tanh"}, "recurrent"),
        (SAC, "gym:Pendulum-v1", {"overlap": 1}, "overlap = 1"),
        (SAC, "gym:Pendulum-v1", {"store.size": 100}, "fewer rows than a mini-batch"),
        (SAC, "gym:Pendulum-v1", {"update.minibatches": 4}, "store.rows"),
        (SAC, "gym:Pendulum-v1", {"store": None}, "Transitions"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(recipe, task, settings, message):
    world = tasks.find(task)
    with pytest.raises(ConfigurationError, match=message):
        build_parts(configure([("recipe", recipe), *settings.items()], world), world)


def test_credit_of_whole_episodes_is_refused():
    with pytest.raises(ConfigurationError, match="single rows"):
        PPO.but(store=Transitions(), update=DQN.update)


def test_an_on_policy_objective_on_old_rows_needs_a_correction():
    with pytest.raises(ConfigurationError, match="set correction"):
        PPO.but(
            store=Transitions(), credit=DQN.credit, objective=ClippedSurrogate(), regularisers=(), update=DQN.update
        )

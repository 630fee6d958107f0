"""The controller as a Policy: evaluation, values, exact KL, copies and files."""

import json

import numpy as np
import pytest
import torch
from control_cases import GREEDY, Line, Shape, asked, controller, play
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.base.ppo import PPO
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import other_network
from hocket.types import Decoding, Quantity, Turn
from hocket.update.problem import Problem

ALL = frozenset({Quantity.LOGP, Quantity.ENTROPY, Quantity.VALUE})
WORLDS = [Line(), Line(actions=3, discrete=False)]
both = pytest.mark.parametrize("world", WORLDS, ids=["discrete", "continuous"])


def distribution(policy, observations, temperature=1.0):
    outputs = policy.module.actor(torch.from_numpy(observations))
    if policy.discrete:
        return Categorical(logits=outputs / temperature)
    return Independent(Normal(outputs, policy.module.log_std.exp() * temperature**0.5), 1)


@both
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_evaluation_equals_the_sampler_and_torch(world, temperature):
    policy = controller(world)
    policy.require(ALL)
    batch = pack(play(world, [asked(s, 3, decoding=Decoding(temperature=temperature)) for s in range(6)], policy))
    now = policy.evaluate(batch, ALL)
    torch.testing.assert_close(now.logp, batch.logp["behaviour"].values, atol=1e-5, rtol=1e-5)
    observations = np.concatenate(batch.observation)
    theirs = distribution(policy, observations, temperature)
    torch.testing.assert_close(now.logp, theirs.log_prob(batch.action), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(now.entropy, theirs.entropy(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(now.value, policy.module.critic(torch.from_numpy(observations))[:, 0])
    assert float(now.logp.detach().std()) > 0.05


def test_greedy_log_probs_are_those_at_temperature_1():
    world = WORLDS[0]
    policy = controller(world)
    batch = pack(play(world, [asked(1, decoding=GREEDY)], policy))
    expected = distribution(policy, np.concatenate(batch.observation)).log_prob(batch.action)
    torch.testing.assert_close(batch.logp["behaviour"].values, expected, atol=1e-5, rtol=1e-5)


@both
def test_a_part_is_scattered_to_its_places_with_the_same_gradient(world):
    policy = controller(world)
    policy.require(ALL)
    batch = pack(play(world, [asked(s) for s in range(5)], policy))
    whole = policy.evaluate(batch, ALL)
    part = torch.tensor([7, 2, 30, 11])
    found = policy.evaluate(batch, ALL, part)
    left = torch.ones(batch.decisions, dtype=torch.bool)
    left[part] = False
    for quantity in ALL:
        assert found.get(quantity).shape == (batch.decisions,)
        torch.testing.assert_close(found.get(quantity)[part], whole.get(quantity)[part])
        assert not found.get(quantity)[left].any()
    weights = list(policy.module.actor.weights)
    ours = torch.autograd.grad(found.logp.sum(), weights)
    theirs = torch.autograd.grad(whole.logp[part].sum(), weights)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


@both
def test_all_decisions_in_another_order_are_at_their_places(world):
    policy = controller(world)
    policy.require(ALL)
    batch = pack(play(world, [asked(s) for s in range(5)], policy))
    whole = policy.evaluate(batch, ALL)
    turned = policy.evaluate(batch, ALL, torch.arange(batch.decisions).flip(0))
    for quantity in ALL:
        torch.testing.assert_close(turned.get(quantity), whole.get(quantity))


@both
def test_decisions_taken_from_a_batch_are_evaluated_like_the_whole(world):
    policy = controller(world)
    policy.require(ALL)
    batch = pack(play(world, [asked(s) for s in range(5)], policy))
    chosen = torch.tensor([2, 3, 11, 30])
    part = batch.take(chosen)
    whole, own = policy.evaluate(batch, ALL, chosen), policy.evaluate(part, ALL)
    one = policy.evaluate(part, ALL, torch.tensor([1]))
    for quantity in ALL:
        assert torch.equal(own.get(quantity), whole.get(quantity)[chosen])
        assert one.get(quantity).detach().ne(0).tolist() == [False, True, False, False]


@both
def test_what_was_first_evaluated_of_a_mini_batch_is_told_of_the_whole(world):
    policy = controller(world)
    policy.require(ALL)
    batch = pack(play(world, [asked(s) for s in range(5)], policy))
    batch = batch.credited(
        advantage=torch.linspace(-1, 1, len(batch.occurrences)), target=torch.ones(len(batch.occurrences))
    )
    optimiser = torch.optim.SGD(policy.module.parameters(), lr=1.0)
    problem = Problem(batch, policy, optimiser, PPO.loss, PPO.needs, PPO.couples, idle_without_advantage=False)
    part = next(problem.batches(1, 3, Key.of(4)))
    problem.gradient(part)
    decisions, now = problem.first
    assert decisions.tolist() == part.taken.decision.tolist()
    whole = policy.evaluate(batch, PPO.needs)
    for quantity in (Quantity.LOGP, Quantity.VALUE):
        assert now.get(quantity).shape == (batch.decisions,)
        torch.testing.assert_close(now.get(quantity)[decisions], whole.get(quantity)[decisions])
    assert abs(problem.kl()) < 1e-6


@both
def test_exact_kl_to_a_reference(world):
    policy = controller(world)
    reference = policy.frozen_copy()
    with torch.no_grad():
        policy.module.actor.biases[-1].add_(torch.arange(world.actions) * 0.4)
    batch = pack(play(world, [asked(s) for s in range(3)], policy))
    now = policy.evaluate(batch, {Quantity.KL_EXACT}, reference=reference)
    observations = np.concatenate(batch.observation)
    expected = kl_divergence(distribution(policy, observations), distribution(reference, observations))
    torch.testing.assert_close(now.kl_exact, expected, atol=1e-5, rtol=1e-4)
    assert float(now.kl_exact.detach().mean()) > 0.01
    now.kl_exact.sum().backward()
    assert all(p.grad is None for p in reference.module.parameters())
    with pytest.raises(ValueError, match="reference"):
        policy.evaluate(batch, {Quantity.KL_EXACT})


def test_turns_of_other_policies_do_not_disturb():
    world = WORLDS[0]
    policy = controller(world)
    played = play(world, [asked(s) for s in range(2)], policy)
    words = Turn("speaker", "other", np.arange(5), np.arange(4), np.zeros(4, np.float32))
    played[0].turns.insert(0, words)
    played[0].scores = {}
    batch = pack(played)
    mine = torch.nonzero(batch.policy[batch.turn] == batch.names["policy"].index(policy.name)).flatten()
    now = policy.evaluate(batch, {Quantity.LOGP}, mine)
    torch.testing.assert_close(now.logp[mine], batch.logp["behaviour"].values[mine], atol=1e-5, rtol=1e-5)


def test_final_values_bootstrap_only_what_was_cut_short():
    world = Line(limit=9)
    policy = controller(world)
    policy.require(ALL)
    played = play(world, [asked(s, 4) for s in range(20)], policy)
    batch = pack(played)
    values = policy.final_values(batch)
    assert 0 < int(batch.terminated.sum()) < len(played)
    for row, trajectory in enumerate(played):
        state = torch.from_numpy(trajectory.final_state)[None]
        expected = policy.module.critic(state)[0, 0] if trajectory.truncated else torch.zeros(())
        torch.testing.assert_close(values[row], expected.detach(), atol=1e-6, rtol=1e-5)
    assert not values.requires_grad
    chosen = torch.tensor([3, 10])
    torch.testing.assert_close(policy.final_values(batch.select(chosen)), values[chosen])


def test_values_need_a_critic_and_require_adds_the_same_one_always():
    world = WORLDS[0]
    policy = controller(world)
    batch = pack(play(world, [asked(1)], policy))
    with pytest.raises(ValueError, match="no critic"):
        policy.evaluate(batch, {Quantity.VALUE})
    before = policy.evaluate(batch, set()).logp
    policy.require(ALL)
    policy.require(ALL)
    twin = controller(world)
    twin.require(ALL)
    torch.testing.assert_close(policy.evaluate(batch, set()).logp, before, atol=0, rtol=0)
    assert torch.equal(policy.module.critic.weights[0], twin.module.critic.weights[0])


def test_initial_weights_depend_on_the_key_and_start_near_uniform():
    shape = Shape(4, 3, True)
    one, same, other = (ControlPolicy.for_task(shape, key=Key.of(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.module.actor.weights[0], same.module.actor.weights[0])
    assert not torch.equal(one.module.actor.weights[0], other.module.actor.weights[0])
    inner = one.module.actor.weights[1]
    torch.testing.assert_close(inner @ inner.T, 2 * torch.eye(64), atol=1e-5, rtol=0)
    observations = Key.of(5).numpy().normal(size=(100, 4)).astype(np.float32)
    uniforms = Key.of(6).numpy().random((100, 1))
    _, logp = one.sample(observations, uniforms, np.ones(100, np.float32))
    assert np.abs(logp + np.log(3)).max() < 0.1


@both
def test_files_round_trip(world, tmp_path):
    policy = controller(world)
    policy.require(ALL)
    batch = pack(play(world, [asked(s) for s in range(3)], policy))
    policy.save(tmp_path / "policy")
    read = ControlPolicy(world, key=Key.of(1234))
    read.load(tmp_path / "policy")
    for quantity in ALL:
        assert torch.equal(read.evaluate(batch, ALL).get(quantity), policy.evaluate(batch, ALL).get(quantity))
    plain = ControlPolicy(world, key=Key.of(1))
    plain.save(tmp_path / "plain")
    policy.load(tmp_path / "plain")  # A file without a critic leaves the critic as it is.
    assert torch.equal(policy.module.critic.weights[0], read.module.critic.weights[0])
    assert torch.equal(policy.module.actor.weights[0], plain.module.actor.weights[0])


def test_wrong_files_are_refused_by_name(tmp_path):
    policy = ControlPolicy(Shape(4, 2, True), key=Key.of(1))
    with pytest.raises(ConfigurationError, match="nowhere"):
        policy.load(tmp_path / "nowhere")
    policy.save(tmp_path)
    with pytest.raises(ConfigurationError, match="another network"):
        ControlPolicy(Shape(4, 3, True), key=Key.of(1)).load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigurationError, match="readable"):
        policy.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps([])[:1])
    with pytest.raises(ConfigurationError, match="readable"):
        policy.load(tmp_path)


def test_a_frozen_copy_is_independent():
    policy = controller(WORLDS[0])
    twin = policy.frozen_copy()
    assert not any(p.requires_grad for p in twin.module.parameters())
    assert all(p.requires_grad for p in policy.module.parameters())
    before = twin.module.actor.weights[0].clone()
    policy.module.actor.weights[0].data.add_(1.0)
    policy.version += 1
    assert torch.equal(twin.module.actor.weights[0], before)
    assert twin.version == 0
    assert twin.name == policy.name


def test_chunks_cover_every_decision_once(monkeypatch):
    import hocket.policies.control as control

    monkeypatch.setattr(control, "_ROWS", 7)
    world = WORLDS[0]
    policy = controller(world)
    batch = pack(play(world, [asked(s) for s in range(4)], policy))
    decisions = torch.arange(3, 23)
    chunks = policy.chunks(batch, decisions)
    assert torch.equal(torch.cat(chunks), decisions)
    assert max(len(chunk) for chunk in chunks) == 7
    assert policy.chunks(batch, decisions[:0]) == []
    assert policy.granularity is Level.DECISION


def test_a_model_of_another_kind_is_named_in_a_sentence(tmp_path):
    own = {"observation": 4, "hidden": [8, 8], "actions": 2}
    words = other_network({"model_type": "qwen3", "hidden_size": 128, "layer_types": ["full_attention"] * 6}, own)
    assert words.startswith("is no control network's but a model of another kind")
    assert len(words) < 120
    assert other_network({**own, "hidden": [4]}, own) == (
        "describes another network: hidden = [4] (here [8, 8]); use the task and the network settings that it was "
        "trained with"
    )

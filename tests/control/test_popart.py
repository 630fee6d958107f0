"""PopArt: a critic whose last layer is rescaled with the statistics of returns, so that no value changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from joint_cases import Relay, asked, controller, play

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.joint import apart
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.base.popart import HAPPO_POPART, MAPPO_POPART, RescaledCritic, RescalingStep
from hocket.methods.base.value_norm import HuberValueLoss
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.recipe import Recipe
from hocket.tasks.joint import JointTask
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.types import Quantity
from hocket.update.problem import Problem

VALUE = frozenset({Quantity.VALUE})
PART = RescaledCritic(rate=0.9)


def rescaled(part: RescaledCritic = PART, **network: object) -> ControlPolicy:
    spaces = JointTask(Relay()).spaces(Relay().agents)
    policy = ControlPolicy(spaces, key=Key.of(3), network=NetworkSettings(**network))
    policy.centralise()
    policy.attach(part)
    policy.require(VALUE)
    return policy


def played() -> Batch:
    """Answers with targets far from 0."""
    batch = pack(play(Relay(kinds="ccc"), [asked(seed) for seed in range(3)]))
    draw = np.random.default_rng(0).normal(50.0, 20.0, len(batch.occurrences))
    return batch.credited(target=torch.from_numpy(draw))


def values_of(policy: ControlPolicy, batch: Batch) -> torch.Tensor:
    return policy.evaluate(batch, VALUE).value.detach()


def statistics(all_returns: list[np.ndarray], rate: float = 0.9) -> tuple[float, float]:
    """The debiased running mean and deviation, once more: a weighted mean of the batches' moments."""
    weights = np.array([rate ** (len(all_returns) - 1 - n) for n in range(len(all_returns))])
    mean = np.average([one.mean() for one in all_returns], weights=weights)
    square = np.average([(one**2).mean() for one in all_returns], weights=weights)
    return float(mean), float(max(square - mean**2, 1e-2) ** 0.5)


@pytest.mark.parametrize("body", ["perceptron", "recurrent", "attention"])
def test_statistics_change_and_values_do_not(body: str) -> None:
    policy, batch, draw = rescaled(body=body), played(), np.random.default_rng(1)
    parted = apart(batch)
    values, ended = values_of(policy, batch), policy.final_values(parted)
    assert PART.scale(policy) == (0.0, pytest.approx(0.1))
    assert values.abs().max() > 1e-3
    assert int((ended != 0).sum()) == 9
    past: list[np.ndarray] = []
    for scale in (1.0, 300.0, 0.5):
        past.append(draw.normal(scale, scale, 40))
        before = values_of(policy, batch)
        PART.renew(policy, torch.from_numpy(past[-1]))
        assert PART.scale(policy) == pytest.approx(statistics(past), rel=1e-9)
        torch.testing.assert_close(values_of(policy, batch), before, atol=3e-4, rtol=1e-4)
    torch.testing.assert_close(policy.final_values(parted), ended, atol=1e-3, rtol=1e-3)
    PART.renew(policy, torch.zeros(0))
    assert PART.scale(policy) == pytest.approx(statistics(past), rel=1e-9)


def test_the_last_layer_is_what_the_authors_layer_becomes() -> None:
    policy = rescaled()
    weight, bias = (
        held[-1].detach().double().numpy().copy()
        for held in (policy.module.critic.weights, policy.module.critic.biases)
    )
    bias += 0.7
    policy.module.critic.biases[-1].data += 0.7
    returns = np.random.default_rng(2).normal(-9.0, 4.0, 64)
    PART.renew(policy, torch.from_numpy(returns))
    # PopArt.update of `on-policy`: from its first state, a mean of 0 and a deviation of 0.1.
    spread = (0.1 * (returns**2).mean() / 0.1 - (0.1 * returns.mean() / 0.1) ** 2) ** 0.5
    np.testing.assert_allclose(policy.module.critic.weights[-1].detach(), weight * 0.1 / spread, rtol=1e-5)
    expected = (0.1 * bias + 0.0 - returns.mean()) / spread
    np.testing.assert_allclose(policy.module.critic.biases[-1].detach(), expected, rtol=1e-5)


def problem_of(policy: ControlPolicy, batch: Batch, loss: HuberValueLoss) -> Problem:
    step = RescalingStep(lr=1e-9, rate=0.9, method="sgd", clip_norm=None)
    return Problem(
        batch=batch,
        policy=policy,
        optimiser=step.optimiser(policy),
        loss_terms=lambda now, part: [loss(now, part)],
        needs=loss.needs,
        couples=loss.couples,
        idle_without_advantage=False,
    )


def test_losses_read_normalised_values_and_the_gradient_is_theirs() -> None:
    policy, batch = rescaled(), played()
    sampled = values_of(policy, batch) + 2.0
    batch = batch.but(value=sampled)
    loss = HuberValueLoss(aggregate="token-mean", clip=0.01, delta=0.5)
    problem = problem_of(policy, batch, loss)
    metrics = RescalingStep(lr=1e-9, rate=0.9, method="sgd", clip_norm=None).step(problem, Key.of(0))
    target = batch.occurrences.target.numpy()
    mean, deviation = statistics([target])
    assert (metrics["value/mean"], metrics["value/deviation"]) == pytest.approx((mean, deviation), rel=1e-9)
    value = (sampled.double().numpy() - 2.0 - mean) / deviation
    old = (sampled.double().numpy() - mean) / deviation
    aim = (target - mean) / deviation

    def huber(error: np.ndarray) -> np.ndarray:
        return np.where(np.abs(error) <= 0.5, error**2 / 2, 0.5 * (np.abs(error) - 0.25))

    near = old + np.clip(value - old, -0.01, 0.01)
    assert metrics["loss"] == pytest.approx(np.maximum(huber(aim - value), huber(aim - near)).mean(), rel=1e-4)
    # One step of SGD: the bias's slope is that of the normalised output.
    slope = np.where(huber(aim - value) >= huber(aim - near), -np.clip(aim - value, -0.5, 0.5), 0.0)
    found = policy.module.critic.biases[-1].grad
    assert float(found) == pytest.approx(slope.mean(), rel=1e-3)
    assert torch.equal(batch.value, sampled)


@pytest.mark.parametrize("recipe", [MAPPO_POPART, HAPPO_POPART], ids=lambda recipe: recipe.name)
def test_a_step_of_a_run_fills_the_scale_of_every_critic(recipe: Recipe) -> None:
    task = tasks.find("mpe:spread?agents=2&length=4")
    parts = build_parts(configure([("recipe", recipe), ("curriculum.prompts", 2)], task), task)
    metrics = asyncio.run(train_step(parts, 1)).metrics
    for name, learner in parts.learners.items():
        (part,) = learner.recipe.update.policy_parts
        prefix = f"{name}/" if len(parts.learners) > 1 else ""
        mean, deviation = part.scale(learner.policy)
        assert (metrics[f"{prefix}value/mean"], metrics[f"{prefix}value/deviation"]) == (mean, deviation)
        assert mean < -1  # Rewards are minus distances.
        assert deviation > 0.1


def test_the_scale_is_saved_with_the_weights(tmp_path: Path) -> None:
    policy, other = rescaled(), rescaled()
    PART.renew(policy, torch.tensor([3.0, 9.0]))
    policy.save(tmp_path)
    other.load(tmp_path)
    assert PART.scale(other) == PART.scale(policy) == (pytest.approx(6.0), pytest.approx(3.0))
    with pytest.raises(ConfigurationError, match="rescaled = True"):
        controller(Relay()).load(tmp_path)


def test_what_cannot_be_rescaled_is_refused() -> None:
    plain = controller(Relay())
    plain.require(VALUE)
    with pytest.raises(ConfigurationError, match="has a critic that is not rescaled"):
        plain.attach(PART)
    policy = rescaled()
    policy.module.critic.after = policy.module.critic = torch.nn.Identity()
    with pytest.raises(ConfigurationError, match="linear last layer"):
        PART.renew(policy, torch.ones(2))
    batch, policy = played(), rescaled()
    problem = problem_of(policy, batch.credited(target=None), HuberValueLoss())
    with pytest.raises(ConfigurationError, match="nothing trains one here"):
        RescalingStep().step(problem, Key.of(0))
    with pytest.raises(ValueError, match="rate must lie"):
        replace(PART, rate=1.0)

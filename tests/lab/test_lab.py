"""The laboratory: enumeration is exact, sampling follows it, and training is reproducible."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.bench import Bench, TablePlayer
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.recipes import find
from hocket.types import Assignment, Decoding, Quantity

ENDING = World(questions=2, tokens=3, horizon=3, end=0, reward=lambda question, answer: float(answer[-1] == 0))
FIXED = World(questions=1, tokens=3, horizon=2, reward=lambda question, answer: float(sum(answer) == 2))


def drawn(world: World, seed: int = 0) -> Tabular:
    """A policy with random logits."""
    policy = Tabular(world)
    with torch.no_grad():
        policy.logits.copy_(torch.from_numpy(Key.of(seed).numpy().normal(size=tuple(policy.logits.shape))))
    return policy


def played(policy: Tabular, count: int, **changes: object) -> list:
    scenario = policy.world.scenario("train", 0)
    asked = replace(Assignment(scenario, count, Decoding(max_tokens=policy.world.horizon)), **changes)
    player = TablePlayer(policy.world, {"policy": policy, "reference": policy})
    return asyncio.run(player.play([asked], key=Key.of(1)))


@pytest.mark.parametrize("context", ["prefix", "last", "position"])
@pytest.mark.parametrize("world", [ENDING, FIXED])
def test_probabilities_of_all_answers_sum_to_one(world, context):
    policy = drawn(replace(world, context=context))
    for question in range(world.questions):
        assert float(policy.logp(question).detach().exp().sum()) == pytest.approx(1.0, abs=1e-12)


def test_answers_are_all_sequences_once():
    assert list(ENDING.answers()) == [
        (0,),
        (1, 0),
        (2, 0),
        *((a, b, c) for a in (1, 2) for b in (1, 2) for c in (0, 1, 2)),
    ]
    assert len(set(FIXED.answers())) == len(list(FIXED.answers())) == 9


def test_frequencies_are_the_probabilities():
    policy = drawn(ENDING)
    answers = list(ENDING.answers())
    count = 4000
    found = [tuple(t.turns[0].action.tolist()) for t in played(policy, count)]
    expected = policy.logp(0).exp().detach().numpy() * count
    seen = np.array([found.count(answer) for answer in answers])
    chi_square = float(((seen - expected) ** 2 / expected).sum())
    assert chi_square < 30  # 10 degrees of freedom: beyond the 0.1 % quantile.


def test_sampler_and_learner_agree():
    policy = drawn(ENDING)
    batch = pack(played(policy, 50))
    now = policy.evaluate(batch, {Quantity.LOGP, Quantity.ENTROPY})
    assert torch.allclose(now.logp, batch.logp["behaviour"].values.double(), atol=1e-6)
    assert bool((now.entropy > 0).all())


def test_an_imposed_prefix_is_recorded_with_its_log_probs():
    policy = drawn(ENDING)
    for trajectory in played(policy, 20, prefix=(2, 1)):
        turn = trajectory.turns[0]
        assert turn.action[:2].tolist() == [2, 1]
        assert turn.forced.tolist() == [True, True, False]
        assert float(turn.logp.sum()) == pytest.approx(float(policy.logp(0, [tuple(turn.action)]).detach()), abs=1e-6)


def test_training_is_a_function_of_the_seed():
    first, second = (Bench(FIXED, find("grpo"), seed=3).run(20) for _ in range(2))
    other = Bench(FIXED, find("grpo"), seed=4).run(20)
    assert first.readings == second.readings
    assert first.readings != other.readings
    assert first.success() > first.readings[0].success + 0.1


def test_the_expected_gradient_is_the_mean_of_sampled_ones():
    """REINFORCE on many samples against the gradient of the exact success rate."""
    policy = drawn(FIXED)
    answers = list(FIXED.answers())
    exact = policy.expectation(0, [FIXED.reward(0, answer) for answer in answers])
    (truth,) = torch.autograd.grad(exact, policy.logits)
    batch = pack(played(policy, 20000))
    reward = torch.tensor([FIXED.reward(0, tuple(row.tolist())) for row in batch.action.view(-1, 2)])
    logp = policy.evaluate(batch, {Quantity.LOGP}).logp.view(-1, 2).sum(1)
    (sampled,) = torch.autograd.grad((reward * logp).mean(), policy.logits)
    assert torch.allclose(sampled, truth, atol=0.02)

"""Divergence of whole distributions by place, from tables and from the nano model, and places weighed by it."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from credit_cases import batch_of, make

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
import tiny_models

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.methods.group_relative.tw_grpo import DIVERGENCE, PlaceWeighted, divergence_by_place, divergence_from_mean
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn


def test_impossible_tokens_count_finitely():
    logp = torch.tensor([[[0.0, -torch.inf]], [[-torch.inf, 0.0]]])
    assert math.isfinite(float(divergence_from_mean(torch.nan_to_num(logp, neginf=-1e4))[0]))


def trajectory(scenario, action, observation):
    length = len(action)
    turn = Turn("agent", "policy", np.asarray(observation), np.asarray(action), np.full(length, -1.0, np.float32))
    return Trajectory(Scenario(scenario), [turn])


def test_a_policy_without_distributions_has_none():
    world = World(questions=1, tokens=2, horizon=1, reward=lambda q, a: 0.0)
    batch = pack([trajectory("0", (0,), Tabular(world).path(0, (0,)))])

    class Plain:
        pass

    assert not divergence_by_place(batch, Plain(), torch.arange(1)).any()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_a_language_model_shows_the_distributions_it_evaluates(kind):
    draw = Key.of(2).numpy()
    trajectories = []
    for number in range(3):
        decoding = Decoding(temperature=float(draw.choice([0.7, 1.4])))
        turn = Turn("a", "policy", draw.integers(3, 40, 4), draw.integers(3, 40, 2 + number), decoding=decoding)
        trajectories.append(Trajectory(Scenario("s"), [turn]))
    batch = pack(trajectories)
    policy = tiny_models.policy(kind)
    asked = torch.tensor([7, 1, 4, 0])
    logp = policy.distributions(batch, asked)(torch.arange(4))
    assert logp.exp().sum(-1) == pytest.approx(torch.ones(4), abs=1e-5)
    evaluated = policy.evaluate(batch, {Quantity.LOGP}).logp.detach()[asked]
    assert torch.allclose(logp.gather(1, batch.action[asked][:, None])[:, 0], evaluated, atol=1e-5)
    whole = divergence_by_place(batch, policy, torch.arange(batch.decisions))
    parts = divergence_by_place(batch, policy, torch.arange(batch.decisions), budget=1)
    assert torch.allclose(whole, parts, rtol=1e-4)
    assert bool((whole > 0).all())


def test_places_weigh_within_their_group():
    batch = batch_of([make("a", 1.0), make("a", 0.0), make("b", 1.0)])
    batch = batch.but(annotations={DIVERGENCE.name: torch.tensor([0.0, 2.0, 0.0, 2.0, 5.0, 5.0])})
    assert PlaceWeighted(largest=1.4)(batch).weight.tolist() == pytest.approx([1, 1.4, 1, 1.4, 1, 1])
    imported = batch.credited(weight=replace(batch.occurrences).weight * 0.5)
    assert PlaceWeighted()(imported).weight.tolist() == pytest.approx([0.5, 0.7, 0.5, 0.7, 0.5, 0.5])

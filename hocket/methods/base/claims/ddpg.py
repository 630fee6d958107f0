"""DDPG's claims."""

from __future__ import annotations

import numpy as np

from hocket.lab.claims.harness import Claims, Finding, below
from hocket.lab.toys.drawn_rows import critics, evaluated, numbers, perceptron, policy_of, reached, rows
from hocket.methods.base.ddpg import DDPG

claim = Claims("ddpg", "arXiv:1509.02971")


@claim("Its losses are those of the paper, computed from the weights in float64.", "algorithm 1")
def its_losses_are_those_of_the_paper_computed_from_the_weights() -> Finding:
    off = {"critic": 0.0, "actor": 0.0}
    for seed in range(5):
        policy, batch = policy_of(DDPG, discrete=False, seed=seed), rows(DDPG, discrete=False, seed=seed)
        held = numbers(batch)
        later = np.tanh(perceptron(policy, "slow_actor.body", held["following"]))
        target = held["paid"] + held["goes_on"] * critics(policy, "slow", held["following"], later)[:, 0]
        values = critics(policy, "critics", held["seen"], held["action"])[:, 0]
        action = np.tanh(perceptron(policy, "actor.body", held["seen"]))
        lead = -critics(policy, "critics", held["seen"], action)[:, 0].mean()
        _, losses = evaluated(DDPG, policy, batch)
        off["critic"] = max(off["critic"], abs(losses["CriticLoss"] - ((values - target) ** 2).mean()))
        off["actor"] = max(off["actor"], abs(losses["PathwiseLoss"] - lead))
    return below(2e-5, **off)


@claim("The critic's loss moves the critic alone, the actor's the actor, and neither a slow copy.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policy, batch = policy_of(DDPG, discrete=False), rows(DDPG, discrete=False)
    evaluation = policy.evaluate(batch, DDPG.needs)
    moved = [reached(policy, loss(evaluation, batch).total()) for loss in DDPG.losses]
    return Finding(moved == [frozenset({"critics"}), frozenset({"actor"})], "; ".join(map(str, map(sorted, moved))))


claim.shipped(DDPG, without={"update.rate": 1.0})

"""SAC's claims."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import critics, evaluated, numbers, perceptron, policy_of, reached, rows
from hocket.lab.toys.measured_runs import returns
from hocket.methods.base.sac import SAC
from hocket.policies.action_values import Temperature
from hocket.policies.value_heads import SquashedGaussian
from hocket.types import Quantity

claim = Claims("sac", "arXiv:1812.05905")
CLOSE = 2e-5
"""Of float32 beside float64, relative to numbers of order 1 to 10."""


@claim("Its losses are those of the paper, computed from the weights in float64.", "eqs. 5, 7, 17 and 18")
def its_losses_are_those_of_the_paper_computed_from_the_weights() -> Finding:
    off = {"critics": 0.0, "actor": 0.0, "temperature": 0.0}
    for seed in range(5):
        policy, batch = policy_of(SAC, discrete=False, seed=seed), rows(SAC, discrete=False, seed=seed)
        held, log_alpha = numbers(batch), float(cast(Temperature, policy.module.temperature).log)

        def drawn(seen: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, log_std = np.split(perceptron(policy, "actor.body", seen), 2, 1)  # noqa: B023
            log_std = np.clip(log_std, -20, 2)
            action = np.tanh(mean + np.exp(log_std) * noise)
            density = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
            return action, density.sum(1)

        later, later_logp = drawn(held["following"], held["noise"][:, 1])
        target = critics(policy, "slow", held["following"], later).min(1) - np.exp(log_alpha) * later_logp
        target = held["paid"] + held["goes_on"] * target
        values = critics(policy, "critics", held["seen"], held["action"])
        action, logp = drawn(held["seen"], held["noise"][:, 0])
        best = critics(policy, "critics", held["seen"], action).min(1)
        expected = {
            "critics": 0.5 * ((values - target[:, None]) ** 2).sum(1).mean(),
            "actor": (np.exp(log_alpha) * logp - best).mean(),
            "temperature": (-log_alpha * (logp - 2)).mean(),
        }
        _, losses = evaluated(SAC, policy, batch)
        for name, loss in zip(expected, losses.values(), strict=True):
            off[name] = max(off[name], abs(loss - expected[name]) / max(1.0, abs(expected[name])))
    return below(CLOSE, **off)


@claim("The critics' loss moves the critics alone, the actor's the actor, the temperature's the temperature.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policy, batch = policy_of(SAC, discrete=False), rows(SAC, discrete=False)
    evaluation = policy.evaluate(batch, SAC.needs)
    moved = [reached(policy, loss(evaluation, batch).total()) for loss in SAC.losses]
    held = moved == [frozenset({"critics"}), frozenset({"actor"}), frozenset({"temperature"})]
    return Finding(
        held and not evaluation.get(Quantity.BACKUP).requires_grad, "; ".join(", ".join(sorted(part)) for part in moved)
    )


@claim("A squashed Gaussian's density integrates to 1, and at the ends of the range, in float32, it is finite.")
def a_squashed_gaussians_density_integrates_to_one() -> Finding:
    edges = torch.linspace(-1, 1, 400_001, dtype=torch.float64)
    middle = (edges[1:] + edges[:-1]) / 2
    off = 0.0
    for mean, log_std in ((0.0, 0.0), (1.0, -1.0), (-0.5, 0.3)):
        head = SquashedGaussian(
            torch.full((len(middle), 1), mean).double(), torch.full((len(middle), 1), log_std).double()
        )
        off = max(off, abs(float(head.logp(middle[:, None]).exp().mean()) * 2 - 1))
    ends = SquashedGaussian(torch.zeros(2, 1), torch.zeros(2, 1)).logp(torch.tensor([[-1.0], [1.0]]))
    return Finding(off < 1e-3 and bool(ends.isfinite().all()), say(off=off, log_density_at_the_ends=ends.tolist()))


@claim("On Pendulum it comes from -1,200 to at least -300 within 8,000 decisions, in each of 3 seeds.", slow=True)
def on_pendulum_it_learns_within_8000_decisions() -> Finding:
    earned = [returns(SAC, "gym:Pendulum-v1", seed, 40)[1] for seed in range(3)]
    return Finding(min(earned) > -300, say(returns=[round(each) for each in earned]))


claim.shipped(SAC, without={"objective.values.learnt": False, "objective.values.temperature": 0.001})

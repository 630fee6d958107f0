"""CQL's claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import critics, numbers, perceptron, policy_of, reached, rows
from hocket.methods.base.cql import CQL
from hocket.methods.base.sac import SAC
from hocket.types import Quantity

claim = Claims("cql", "arXiv:2006.04779")


@claim("Its penalty is the logarithm of an importance-weighted sum, less Q of the recorded action.", "appendix F")
def its_penalty_is_that_of_the_paper() -> Finding:
    policy, batch = policy_of(CQL, discrete=False), rows(CQL, discrete=False)
    held = numbers(batch)
    uniform = 2 * torch.special.ndtr(torch.from_numpy(held["noise"][:, 2:12])).numpy() - 1
    terms = [(uniform, np.full(uniform.shape[:2], -2 * np.log(2.0)))]
    for states, noise in ((held["seen"], held["noise"][:, 12:22]), (held["following"], held["noise"][:, 22:])):
        mean, log_std = np.split(perceptron(policy, "actor.body", states)[:, None], 2, 2)
        action = np.tanh(mean + np.exp(np.clip(log_std, -20, 2)) * noise)
        density = -0.5 * noise**2 - np.clip(log_std, -20, 2) - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
        terms.append((action, density.sum(2)))
    total = sum(
        np.exp(critics(policy, "critics", held["seen"], action[:, n]) - density[:, n, None])
        for action, density in terms
        for n in range(10)
    )
    expected = np.log(total) - critics(policy, "critics", held["seen"], held["action"])
    gap = policy.evaluate(batch, CQL.needs).get(Quantity.CONSERVATIVE).detach().double().numpy()
    loss = float(CQL.losses[-1](policy.evaluate(batch, CQL.needs), batch).total().detach())
    return below(
        1e-4, gap=float(abs(gap - expected).max()), loss=abs(loss - 5 * expected.sum(1).mean()) / abs(expected).max()
    )


@claim("The penalty moves the critics alone; without it the losses are SAC's.", "eq. 3")
def the_penalty_moves_the_critics_alone() -> Finding:
    policy, batch = policy_of(CQL, discrete=False), rows(CQL, discrete=False)
    evaluation = policy.evaluate(batch, CQL.needs)
    moved = [reached(policy, loss(evaluation, batch).total()) for loss in CQL.losses]
    expected = [frozenset({name}) for name in ("critics", "actor", "temperature", "critics")]
    plain = policy_of(SAC, discrete=False)
    base = plain.evaluate(batch, SAC.needs)
    pairs = zip(SAC.losses, CQL.losses, strict=False)
    off = max(
        abs(float(ours(base, batch).total().detach() - other(evaluation, batch).total().detach()))
        for ours, other in pairs
    )
    return Finding(moved == expected and off < 1e-6, say(parts=str([*map(sorted, moved)]), off=off))


@claim("Its descent lowers values of other actions and raises those of recorded ones.", "section 3.1")
def its_descent_raises_recorded_actions_above_others() -> Finding:
    policy, batch = policy_of(CQL, discrete=False), rows(CQL, discrete=False, count=24)
    narrow = batch.action * 0.1 + 0.5  # The data act in a corner.
    batch = replace(batch, action=narrow)
    held = numbers(batch)

    def lead() -> float:
        other = np.random.default_rng(0).uniform(-1, 1, held["action"].shape)
        recorded = critics(policy, "critics", held["seen"], held["action"])
        return float((recorded - critics(policy, "critics", held["seen"], other)).mean())

    before = lead()
    step = torch.optim.Adam(policy.parts()["critics"], lr=1e-2)
    for _ in range(20):
        step.zero_grad()
        torch.autograd.backward(CQL.losses[-1](policy.evaluate(batch, CQL.needs), batch).total())
        step.step()
    return Finding(lead() > before + 0.3, say(lead_before=before, lead_after=lead()))

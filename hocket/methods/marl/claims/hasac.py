"""HASAC's claims."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.keys import Key, uniforms
from hocket.core.stored_rows import FOLLOWING, GOES_ON, PRESENT, TEAM_PAID, WORD
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import critics, perceptron
from hocket.lab.toys.measured_runs import returns
from hocket.lab.toys.team_rows import ACTIONS, policies_of, team_rows
from hocket.methods.marl.bardec_pomdp.dilemmas import GAMES
from hocket.methods.marl.hasac import HASAC
from hocket.policies.control import ControlPolicy
from hocket.policies.team_critics import FRESH_ACTION
from hocket.train.annotate import annotate, annotated
from hocket.train.learner import Learner

claim = Claims("hasac", "arXiv:2306.10715")
CLOSE = 5e-5
ALPHA = 0.05
Array = NDArray[np.float64]


def _annotated(policies: dict[str, ControlPolicy], batch: Batch) -> Batch:
    for policy in policies.values():
        batch = annotate(batch, HASAC.reads, policy, None, later=True)
    return batch


def _log_softmax(logits: Array) -> Array:
    top = logits.max(1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True)))


def _by_hand(policies: dict[str, ControlPolicy], name: str, batch: Batch) -> dict[str, float]:
    """The losses of one agent's policy, from all weights, in float64."""
    agents, count = list(policies), batch.trajectories
    column = {
        each.name: each.read(batch, "the claim").double().numpy().reshape(3, count, -1)
        for each in (FOLLOWING, GOES_ON, TEAM_PAID, PRESENT)
    }
    word, action = WORD.read(batch, "the claim").numpy().reshape(3, count), batch.action.numpy().reshape(3, count)
    present, alive, eye = column["present"], column["goes_on"] > 0, np.eye(ACTIONS)
    me, number = agents.index(name), np.tile(np.eye(3)[agents.index(name)], (count, 1))

    def noise(agent: int, first: int) -> Array:
        drawn = uniforms(word[agent].astype(np.uint64)[:, None], np.arange(first, first + ACTIONS).astype(np.uint64))
        return np.asarray(-np.log(-np.log(drawn)))

    def values(network: str, sights: list[Array], actions: list[Array]) -> Array:
        x = np.concatenate([*sights, *actions, number], 1)
        return critics(policies[name], network, x, np.zeros((count, 0)))

    sight = [np.asarray(batch.observation[k], np.float64) for k in range(3)]
    later = [column["following"][k] * alive[k] for k in range(3)]
    now_logits = [perceptron(policies[agent], "actor", sight[k]) for k, agent in enumerate(agents)]
    then_logits = [perceptron(policies[agent], "actor", column["following"][k]) for k, agent in enumerate(agents)]
    choices = [eye[(logits + noise(k, 0)).argmax(1)] * alive[k] for k, logits in enumerate(then_logits)]
    entropy = np.zeros(count)
    for k, logits in enumerate(then_logits):
        logp = _log_softmax(logits)
        entropy -= (np.exp(logp) * logp).sum(1) * alive[k][:, 0]
    soft = values("slow", later, choices).min(1) + ALPHA * entropy
    target = column["team_paid"][me][:, 0] + column["goes_on"][me][:, 0] * soft
    acted = [eye[action[k]] * present[k] for k in range(3)]
    fresh = [eye[(logits + noise(k, ACTIONS)).argmax(1)] * present[k] for k, logits in enumerate(now_logits)]
    logp, lead, live = _log_softmax(now_logits[me]), np.zeros(count), present[me][:, 0] > 0
    for choice in range(ACTIONS):
        taken = [*fresh]
        taken[me] = np.tile(eye[choice], (count, 1))
        value = values("critics", sight, taken).min(1)
        lead += np.exp(logp[:, choice]) * (ALPHA * logp[:, choice] - value)
    errors = ((values("critics", sight, acted) - target[:, None]) ** 2).sum(1)
    return {"TeamCriticLoss": float(errors[live].mean()), "PathwiseLoss": float(lead[live].mean())}


@claim("Its losses are those of the paper, computed from all agents' weights in float64.", "eq. 7 and 9")
def its_losses_are_those_of_the_paper() -> Finding:
    off = {"TeamCriticLoss": 0.0, "PathwiseLoss": 0.0}
    for seed in range(2):
        policies = policies_of(HASAC, shared=False, seed=seed)
        batch = _annotated(policies, team_rows(HASAC, shared=False, seed=seed))
        for name, policy in policies.items():
            mine = batch.of_policy(name)
            evaluation = policy.evaluate(mine, HASAC.needs)
            expected = _by_hand(policies, name, batch)
            for loss in HASAC.losses:
                kind = type(loss).__name__
                off[kind] = max(off[kind], abs(float(loss(evaluation, mine).total().detach()) - expected[kind]))
    return below(CLOSE, critics=off["TeamCriticLoss"], actor=off["PathwiseLoss"])


@claim("An agent learns against the policies of those before it as they are after their update.", "algorithm 1")
def an_agent_learns_against_those_before_it_after_their_update() -> Finding:
    policies = policies_of(HASAC, shared=False)
    batch = _annotated(policies, team_rows(HASAC, shared=False, count=24))
    learner = Learner(policies["a"], HASAC.but(**{"update.lr": 0.3}), total_steps=1)
    learner.learn_drawn(learner.credit_drawn(batch, 1), Key.of(0), 1, 1)
    after = annotated(batch, [FRESH_ACTION], policies["a"])
    moved = (after.annotations["fresh_action"] != batch.annotations["fresh_action"]).any(1)
    agent = batch.agent[batch.turn]
    shares = [float(moved[agent == number].double().mean()) for number in range(3)]
    losses = []
    for rows in (batch, after):
        mine = rows.of_policy("b")
        losses.append(float(HASAC.losses[1](policies["b"].evaluate(mine, HASAC.needs), mine).total().detach()))
    held = shares[0] > 0.1 and shares[1:] == [0, 0] and abs(losses[0] - losses[1]) > 1e-3
    return Finding(held, say(share_of_actions_that_moved=shares, losses_of_the_next=losses))


# ---------------------------------------------------------------- games of one table


def _soft_value(table: Array, policies: list[Array], alpha: float) -> float:
    entropy = sum(-float((policy * np.log(policy)).sum()) for policy in policies)
    return float(policies[0] @ table @ policies[1]) + alpha * entropy


def _best(table: Array, policies: list[Array], agent: int, alpha: float) -> Array:
    """The softmax of an agent's action values against the other's policy."""
    value = table @ policies[1] if agent == 0 else policies[0] @ table
    weight = np.exp((value - value.max()) / alpha) + 1e-300
    return np.asarray(weight / weight.sum())


@claim(
    "In random games of 3 by 3 with a common pay, the minimum of an agent's actor loss is the softmax of its values; "
    "sequential steps to it never lower the soft value, simultaneous ones do in some, and the limit answers itself to "
    "1e-6.",
    "theorems 2 and 3",
)
def sequential_softmax_steps_never_lower_the_soft_value() -> Finding:
    fell, together, residual, gradient = 0.0, 0.0, 0.0, 0.0
    for seed, alpha in itertools.product(range(20), (0.05, 0.3)):
        rng = Key.of(seed).numpy()
        table = rng.normal(size=(3, 3))
        start = [rng.dirichlet(np.ones(3)) for _ in range(2)]
        policies = list(start)
        for _ in range(500):
            for agent in rng.permutation(2).tolist():
                before = _soft_value(table, policies, alpha)
                policies[agent] = _best(table, policies, agent, alpha)
                fell = max(fell, before - _soft_value(table, policies, alpha))
        residual = max(residual, *(float(np.abs(_best(table, policies, k, alpha) - policies[k]).max()) for k in (0, 1)))
        other = list(start)
        for _ in range(20):
            before = _soft_value(table, other, alpha)
            other = [_best(table, other, agent, alpha) for agent in (0, 1)]
            together = max(together, before - _soft_value(table, other, alpha))
        gradient = max(gradient, _slope(table @ start[1], alpha))
    return Finding(
        fell < 1e-9 and together > 0.01 and residual < 1e-6 and gradient < 1e-6,
        say(fell_in_turn=fell, fell_together=together, residual=residual, slope_at_the_softmax=gradient),
    )


def _slope(values: Array, alpha: float) -> float:
    """The actor loss's slope at the softmax of the values, written as `SoftTeamCritics` writes it."""
    logits = torch.from_numpy(values / alpha).requires_grad_()
    logp = torch.log_softmax(logits, -1)
    loss: Any = (logp.exp() * (alpha * logp - torch.from_numpy(values))).sum()
    loss.backward()
    assert logits.grad is not None
    return float(logits.grad.abs().max())


@claim(
    "A large temperature, cooled down, leaves the poor equilibrium of the penalty game, which a small one keeps; in "
    "the climbing game it does not.",
    "section 5.1",
)
def a_large_temperature_leaves_the_poor_equilibrium_of_the_penalty_game() -> Finding:
    earned = {}
    for name in ("penalty", "climbing"):
        table = np.array(GAMES[name][0], np.float64)
        for kind, temperatures in (("cold", [0.05] * 400), ("cooled", list(np.geomspace(20, 0.05, 400)))):
            policies = [np.array([0.015, 0.98, 0.005])] * 2
            for alpha in temperatures:
                for agent in (0, 1):
                    policies[agent] = _best(table, policies, agent, alpha)
            earned[f"{name}_{kind}"] = round(float(policies[0] @ table @ policies[1]), 1)
    expected = {"penalty_cold": 2, "penalty_cooled": 10, "climbing_cold": 7, "climbing_cooled": 7}
    return Finding(earned == expected, say(**earned))


@claim("On cooperative navigation of two it improves within 45 steps, greedy, by at least 5.", slow=True)
def on_cooperative_navigation_it_learns() -> Finding:
    settings = {"store.ratio": 0.2, "store.rows": 256, "store.begin": 256}
    before, after = returns(HASAC, "mpe:spread?agents=2", 0, 45, **settings)
    return Finding(after > before + 5, say(before=before, after=after))


claim.shipped(HASAC, without={"objective.values.temperature": 0.0}, steps=12)

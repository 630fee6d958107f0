"""Claims on penalties of learnt worlds."""

from __future__ import annotations

import functools
from typing import cast, get_args

import numpy as np
import torch
from scipy.stats import spearmanr

from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import Array, policy_of, reached, rows
from hocket.methods.base.bc import BC
from hocket.objectives.action_values import DynamicsLoss
from hocket.policies.action_values import Critics
from hocket.policies.control import ControlPolicy
from hocket.policies.dynamics import DynamicsEnsemble, Penalty, Prediction, penalty, predicted
from hocket.policies.settings import NetworkSettings
from hocket.rollout.transitions import Transitions
from hocket.types import Quantity, Scenario, Score, Trajectory, Turn

claim = Claims("offline-mbrl-design-choices", "arXiv:2110.04135")
LEARNT = BC.but(name="dynamics", regularisers=(DynamicsLoss(DynamicsEnsemble()),))


@claim("The penalties are their formulas in float64; the mixture's square is the mean deviation's and the variance's.")
def the_penalties_are_their_formulas() -> Finding:
    rng = np.random.default_rng(0)
    mean, wide = rng.normal(size=(4, 50, 3)), np.exp(rng.normal(size=(4, 50, 3)))
    believed = Prediction(torch.from_numpy(mean), torch.from_numpy(wide))
    penalties = {kind: penalty(believed, kind).numpy() for kind in get_args(Penalty)}
    off = dict.fromkeys(penalties, 0.0)
    for row in range(50):
        mu, sigma = mean[:, row], wide[:, row]
        divergence = 0.0
        for left in range(4):
            rest = [other for other in range(4) if other != left]
            centre = mu[rest].mean(0)
            spread = (sigma[rest] ** 2 + (mu[rest] - centre) ** 2).mean(0)
            terms = np.log(np.sqrt(spread) / sigma[left]) + (sigma[left] ** 2 + (mu[left] - centre) ** 2) / (2 * spread)
            divergence += (terms - 0.5).sum() / 4
        exact = {
            "aleatoric": max(np.linalg.norm(model_part) for model_part in sigma),
            "pairwise": max(np.linalg.norm(model_part - other) for model_part in mu for other in mu),
            "variance": np.sqrt(((mu - mu.mean(0)) ** 2).mean(0).sum()),
            "mixture": np.sqrt(((sigma**2 + mu**2).mean(0) - mu.mean(0) ** 2).sum()),
            "left-out": divergence,
        }
        off = {
            kind: max(off[kind], abs(float(penalties[cast(Penalty, kind)][row]) - value))
            for kind, value in exact.items()
        }
    parts = (wide**2).mean(0).sum(-1) + penalties["variance"] ** 2
    return below(1e-9, **off, identity=float(abs(penalties["mixture"] ** 2 - parts).max()))


@claim("The loss is each model's Gaussian likelihood of what followed and was paid, and trains the models alone.")
def the_loss_is_each_models_likelihood() -> Finding:
    policy, batch = policy_of(LEARNT, discrete=False), rows(LEARNT, discrete=False)
    evaluation = policy.evaluate(batch, LEARNT.needs)
    moved = reached(policy, LEARNT.losses[-1](evaluation, batch).total())
    states, following = (torch.from_numpy(batch.observation[0]), batch.annotations["following"])
    believed = predicted(_models(policy), states, batch.action)
    truth = torch.cat([following - states, batch.annotations["paid"][:, None]], 1)
    scaled = (truth.double() - believed.mean.double()) / believed.deviation.double()
    expected = (0.5 * scaled.square() + believed.deviation.double().log()).sum(-1).T
    places = batch.annotations["place"]
    expected[torch.stack([(places + k) % 5 == 0 for k in range(5)], 1)] = 0.0
    off = float(
        (evaluation.get(Quantity.DYNAMICS).detach() - expected.detach()).abs().max() / expected.detach().abs().max()
    )
    return Finding(off < 1e-5 and moved == {"dynamics"}, say(off=off, moved=str(sorted(moved))))


@claim("Where data are narrow, the mixture follows the true error at least as well as MOPO's default.", slow=True)
def the_mixture_follows_the_error_at_least_as_well_as_the_default() -> Finding:
    once, imagined = _correlations()
    held = once["mixture"] > once["aleatoric"] - 0.02 and imagined["mixture"] > imagined["aleatoric"] - 0.02
    figures = {f"{kind}": f"{once[kind]:.2f}, {imagined[kind]:.2f}" for kind in once}
    return Finding(held and min(once["mixture"], imagined["mixture"]) > 0.3, say(**figures))


def pendulum(states: Array, action: Array) -> tuple[Array, Array]:
    """What follows, `[B, 3]`, and is paid, `[B]`, in Gymnasium's Pendulum-v1, whose torque is twice the action."""
    angle, speed = np.arctan2(states[:, 1], states[:, 0]), states[:, 2]
    torque = 2 * np.clip(action[:, 0], -1, 1)
    paid = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
    speed = np.clip(speed + (15 * np.sin(angle) + 3 * torque) * 0.05, -8, 8)
    angle = angle + speed * 0.05
    return np.stack([np.cos(angle), np.sin(angle), speed], 1), paid


def _states(rng: np.random.Generator, count: int) -> Array:
    angle = rng.uniform(-np.pi, np.pi, count)
    return np.stack([np.cos(angle), np.sin(angle), rng.uniform(-8, 8, count)], 1)


@functools.cache
def _correlations() -> tuple[dict[str, float], dict[str, float]]:
    """Rank correlations of penalties and true errors, of single decisions and of states five imagined steps on."""
    policy, rng = _trained(), np.random.default_rng(1)
    states = _states(rng, 1500)
    penalties = []
    for steps in (0, 5):
        for _ in range(steps):
            action = rng.uniform(-1, 1, (len(states), 1))
            believed = predicted(_models(policy), torch.tensor(states).float(), torch.tensor(action).float())
            model = rng.integers(len(believed.mean), size=len(states))
            states = states + believed.mean.detach().double().numpy()[model, np.arange(len(states)), :-1]
        action = rng.uniform(-1, 1, (len(states), 1))
        believed = predicted(_models(policy), torch.tensor(states).float(), torch.tensor(action).float())
        following, paid = pendulum(states, action)
        guess = believed.mean.detach().double().numpy().mean(0)
        error = np.linalg.norm(guess - np.concatenate([following - states, paid[:, None]], 1), axis=1)
        kinds = {kind: penalty(believed, kind).detach().numpy() for kind in get_args(Penalty)}
        penalties.append({kind: float(spearmanr(value, error).statistic) for kind, value in kinds.items()})
    return penalties[0], penalties[1]


def _trained() -> ControlPolicy:
    """Models of 2,000 decisions near the top or slow, with small actions."""
    rng, episodes = np.random.default_rng(0), []
    for number in range(100):
        states, action = np.empty((21, 3)), rng.uniform(-0.4, 0.4, (20, 1))
        angle = rng.uniform(-2, 2)
        states[0] = np.cos(angle), np.sin(angle), rng.uniform(-2, 2)
        paid = np.empty(20)
        for t in range(20):
            after, earned = pendulum(states[t : t + 1], action[t : t + 1])
            states[t + 1], paid[t] = after[0], earned[0]
        turn = Turn("agent", "policy", states[:-1].astype(np.float32), action.astype(np.float32))
        score = {"reward": Score(paid, Level.DECISION)}
        final = states[-1].astype(np.float32)
        episodes.append(Trajectory(Scenario(f"s{number}"), [turn], scores=score, truncated=True, final_state=final))
    batch, store = pack(episodes), Transitions(size=4000, rows=256, begin=0)
    state = store.add(store.init(), paid_at_decisions(batch, batch.scores["reward"].values))
    policy = ControlPolicy(_Spaces(), key=Key.of(0), network=NetworkSettings(hidden=(48, 48), activation="relu"))
    for part in LEARNT.policy_parts:
        part.install(policy)
    step = torch.optim.Adam(policy.parts()["dynamics"], lr=3e-3)
    for number in range(500):
        drawn = store.draw(state, 256, Key.of(number))
        step.zero_grad()
        torch.autograd.backward(LEARNT.losses[-1](policy.evaluate(drawn, {Quantity.DYNAMICS}), drawn).total())
        step.step()
    return policy


class _Spaces:
    observations, actions, discrete = 3, 1, False


def _models(policy: ControlPolicy) -> Critics:
    return cast(Critics, policy.module.dynamics)

"""Claims about multi-agent PPO with sequential policies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from hocket.core.signals import returns
from hocket.exact.cooperative import localised
from hocket.exact.mdp import Array
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.shipped import ShippedRun
from hocket.lab.toys.joint_games import CooperativeGame, softened
from hocket.methods.marl.multi_agent_ppo_global import MULTI_AGENT_PPO_GLOBAL
from hocket.objectives.drift import DriftSurrogate

claim = Claims("multi-agent-ppo-global", "arXiv:2305.04819")
SHAPES: Sequence[tuple[int, tuple[int, ...]]] = ((3, (2, 3)), (2, (2, 2, 2)), (4, (3, 2, 2)))


@claim("The joint return's difference is the sum over agents of <Q_i, pi_i' - pi_i> under the new policy's past.")
def _() -> Finding:
    error, largest, otherwise = 0.0, 0.0, 0.0
    for seed in range(20):
        for states, moves in SHAPES:
            game = CooperativeGame(seed, states, moves)
            old, new = game.random(seed), game.random(seed + 1000)
            before, quality, _ = game.solved(old)
            after, _, visits = game.solved(new)
            gain, wrong = 0.0, 0.0
            past: Array = np.ones(states)
            for own, changed, local in zip(old, new, localised(old, quality), strict=True):
                term = (local * (changed - own)).sum(-1)
                gain += _weighed(visits, past * term)
                wrong += _weighed(visits, term) / math.prod(term.shape[1:])
                past = past[..., None] * changed
            error = max(error, abs(after - before - gain / (1 - game.discount)))
            otherwise = max(otherwise, abs(after - before - wrong / (1 - game.discount)))
            largest = max(largest, abs(after - before))
    return Finding(
        error < 1e-10 and otherwise > 1e-3,
        say(largest_error=error, largest_difference=largest, error_without_the_new_past=otherwise),
    )


def _weighed(visits: Array, term: Array) -> float:
    return float((visits.reshape(-1, *(1,) * (term.ndim - 1)) * term).sum())


@claim("With exact Q_i, steps pi_i exp(Q_i / beta) never lower J, and sqrt(K) times the gap to the optimum falls.")
def _() -> Finding:
    worst, scaled = math.inf, []
    for seed in range(10):
        for states, moves in SHAPES:
            game = CooperativeGame(seed, states, moves)
            policy, best, gaps = game.even(), game.best(), []
            for _ in range(256):
                reached, quality, _ = game.solved(policy)
                gaps.append(best - reached)
                policy = softened(policy, localised(policy, quality), 2.0)
            worst = min(worst, -float(np.diff(gaps).max()))
            scaled.append((math.sqrt(16) * gaps[15], math.sqrt(256) * gaps[255]))
    falls = all(late < early or late < 1e-9 for early, late in scaled)
    early, late = (max(pair[place] for pair in scaled) for place in (0, 1))
    return Finding(
        worst > -1e-12 and falls,
        say(least_rise=worst, gap_times_root_of_16=early, gap_times_root_of_256=late),
    )


@claim(
    "In the penalty game agents that ignore each other's choice stall at the safe pair; in turn they reach an optimum."
)
def _() -> Finding:
    pay = np.array([[10.0, 0, -100], [0, 2, 0], [-100, 0, 10]])
    game = CooperativeGame(0, 1, (3, 3), discount=0.0)
    game.reward = pay[None]
    alone = [np.full(3, 1 / 3), np.full(3, 1 / 3)]
    turns = game.even()
    for _ in range(400):
        values = (pay @ alone[1], pay.T @ alone[0])
        alone = softened(alone, values, 0.1)
        turns = softened(turns, localised(turns, game.solved(turns)[1]), 0.1)
    apart, together = float(alone[0] @ pay @ alone[1]), game.solved(turns)[0]
    return Finding(abs(apart - 2) < 1e-3 and together > 9.99, say(independent=apart, in_turn=together, best=10.0))


@claim("The best policy under its objective, in expectation over the old one's actions, is pi exp(A / beta) / Z.")
def _() -> Finding:
    drift = MULTI_AGENT_PPO_GLOBAL.objective
    assert isinstance(drift, DriftSurrogate)
    assert drift.drift is not None
    rng, slope, beta = np.random.default_rng(0), 0.0, 2.0
    for _ in range(20):
        old = torch.from_numpy(rng.dirichlet(np.ones(5)))
        advantage = torch.from_numpy(rng.normal(size=5))
        target = torch.log_softmax(old.log() + advantage / beta, 0)
        logits = target.clone().requires_grad_()
        log_ratio = torch.log_softmax(logits, 0) - old.log()
        gain = old * (log_ratio.exp() * advantage - drift.drift(log_ratio, advantage, 0.3))
        (found,) = torch.autograd.grad(gain.sum(), logits)
        slope = max(slope, float(found.abs().max()))
    return below(1e-12, slope_of_the_gain_at_it=slope)


def _told(shipped: ShippedRun) -> dict[str, float]:
    """How many of the moves that agent 2 was told of are those that agent 1 had just made."""
    batch = shipped.results[0].batch
    assert batch is not None
    assert bool(torch.isfinite(returns(batch)).all())
    first, second = batch.turn == 0, batch.turn == 1
    sight = torch.from_numpy(np.asarray(batch.observation[1]))
    told = sight[:, -12:-7].argmax(1)  # Two one-hot moves of 5, then two numbers that tell the agents apart.
    right = bool((told == batch.action[first]).all()) and int(second.sum()) == len(told)
    return {"share of moves told rightly": float(right)}


claim.shipped(MULTI_AGENT_PPO_GLOBAL, "objective", sees=_told)
claim.shipped(MULTI_AGENT_PPO_GLOBAL, without={"objective.drift": None})

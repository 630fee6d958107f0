"""Control: short CartPole runs watched step by step, random processes solved exactly, an objective's slope in r."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Finding, inspect_rows
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Quantity

Array = NDArray[np.float64]
LONGEST = 200
"""Decisions after which an episode is cut short, so that a run takes seconds; also the best return."""

# ---------------------------------------------------------------- CartPole


@dataclass(frozen=True)
class ControlRun:
    """What a run did.

    Attributes:
        score: mean return of greedy episodes after it, at most `LONGEST`.
        furthest: of each step, the largest |r - 1| over its decisions, r the ratio after the step to before.
        backward: of each step, mean KL(before || after) over all actions, in nats.
    """

    score: float
    furthest: tuple[float, ...]
    backward: tuple[float, ...]


@functools.cache
def cart_pole(recipe: str, seed: int, steps: int = 8, epochs: int | None = None) -> ControlRun:
    """A run of the library's recipe with the settings that the task suggests, `epochs` per batch where given."""
    task = tasks.find(f"gym:CartPole-v1?max_episode_steps={LONGEST}")
    often = [] if epochs is None else [("update.epochs", epochs)]
    config = configure([("recipe", find(recipe)), ("steps", steps), ("seed", seed), *often], task)
    parts = build_parts(config, task)
    furthest, backward = zip(*(_step(parts, number + 1) for number in range(steps)), strict=True)
    key = parts.key.derive("check")
    end = asyncio.run(evaluate(task, parts.player, parts.rewards, n=50, decoding=config.decoding, key=key))
    return ControlRun(end.success, furthest, backward)


def _step(parts: RunContext, number: int) -> tuple[float, float]:
    policy = parts.lead.policy
    before = policy.frozen_copy()
    batch = asyncio.run(train_step(parts, number)).batch
    assert batch is not None
    everything = torch.arange(batch.decisions)
    logp = evaluate_detached(policy, batch, {Quantity.LOGP}, everything).logp.double()
    back = evaluate_detached(before, batch, {Quantity.KL_EXACT}, everything, reference=policy).kl_exact
    assert back is not None
    furthest = float((logp - batch.logp["behaviour"].values.double()).expm1().abs().max())
    return furthest, float(back.double().mean())


def on_par(name: str) -> Callable[[], Finding]:
    """Puts to the test that a recipe's return on CartPole is PPO's, within noise or a twentieth of the best."""

    def run() -> Finding:
        ours, theirs = ([cart_pole(recipe, seed).score for seed in SEEDS] for recipe in (name, "ppo"))
        noise = math.hypot(*(stdev(scores) / math.sqrt(len(SEEDS)) for scores in (ours, theirs)))
        returns = (f"{fmean(scores):.0f} ({min(scores):.0f} to {max(scores):.0f})" for scores in (ours, theirs))
        setting = f"CartPole, 8 batches, {len(SEEDS)} seeds, return of at most {LONGEST}"
        holds = fmean(ours) - fmean(theirs) > -max(2 * noise, 0.05 * LONGEST)
        return Finding(holds, f"{setting}: " + " against PPO's ".join(returns))

    return run


# ---------------------------------------------------------------- processes and slopes, exact


class Process:
    """A random Markov decision process with exact values."""

    def __init__(self, seed: int, states: int = 6, actions: int = 4, discount: float = 0.9) -> None:
        noise = Key.of(seed).derive("process").numpy()
        self.transition: Array = noise.dirichlet(np.full(states, 0.3), size=(states, actions))
        self.reward: Array = noise.uniform(size=(states, actions))
        self.states, self.actions, self.discount = states, actions, discount
        self.uniform: Array = np.full((states, actions), 1 / actions)

    def solved(self, policy: Array) -> tuple[float, Array, Array]:
        """Return from an even start, advantages `[S, A]` and discounted visits `[S]` (they sum to 1)."""
        system = np.eye(self.states) - self.discount * np.einsum("sa,sat->st", policy, self.transition)
        value, start = np.linalg.solve(system, (policy * self.reward).sum(1)), np.full(self.states, 1 / self.states)
        quality = self.reward + self.discount * self.transition @ value
        visits = (1 - self.discount) * np.linalg.solve(system.T, start)
        return float(start @ value), quality - value[:, None], visits

    def best(self) -> float:
        """The return of an optimal policy, by policy iteration."""
        policy = self.uniform
        for _ in range(100):
            policy = np.eye(self.actions)[self.solved(policy)[1].argmax(1)]
        return self.solved(policy)[0]


def softened(policy: Array, advantage: Array, t: float) -> Array:
    """pi exp(t A) / Z in every state."""
    raised: Array = policy * np.exp(t * (advantage - advantage.max(1, keepdims=True)))
    shares: Array = raised / raised.sum(1, keepdims=True)
    return shares


ADVANTAGES = (-3.0, -1.0, -0.2, 0.2, 1.0, 3.0)


def slope(recipe: Recipe, ratio: float, advantage: float) -> float:
    """d gain / d r of one decision under a recipe's objective, by the microscope; gain is minus the loss.

    A decision of advantage A is its own trajectory of reward A, without whitening and with value 0.
    """
    logp = {"logp": [math.log(ratio) - 1.0], "logp_behaviour": [-1.0], "value": [0.0]}
    row = {"group": "g", "scores": {"reward": advantage}, **logp}
    return -float(inspect_rows(recipe.but({"credit.whiten": False}), [row])["gradient"][0][0]) / ratio

"""Toys of several claims: control runs."""

from __future__ import annotations

import asyncio
import functools
import statistics
from dataclasses import dataclass

import torch

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.evaluating import evaluate_detached
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.stages import Metrics
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Quantity

SEEDS = (0, 1, 2, 3, 4)
LONGEST = 200
"""Decisions after which an episode is cut short, so that a run takes seconds; also the best return."""


@dataclass(frozen=True)
class ControlRun:
    """What a run did.

    Attributes:
        score: mean return of greedy episodes after it, at most `LONGEST`.
        furthest: of each step, the largest |r - 1| over its decisions, r the ratio after the step to before.
        forward, backward: of each step, mean KL(after || before) and KL(before || after) over all actions, in nats.
        metrics: of each step, the trainer's.
    """

    score: float
    furthest: tuple[float, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    metrics: tuple[Metrics, ...]


@functools.cache
def cart_pole(recipe: str, seed: int, steps: int = 8, epochs: int | None = None) -> ControlRun:
    """A run of the library's recipe with the settings that the task suggests, `epochs` per batch where given."""
    task = tasks.find(f"gym:CartPole-v1?max_episode_steps={LONGEST}")
    chosen: Recipe = find(recipe)
    pairs = [("recipe", chosen), ("steps", steps), ("seed", seed)]
    if epochs is not None:
        pairs.append(("update.epochs", epochs))
    config = configure(pairs, task)
    parts = build_parts(config, task)
    rows = [_step(parts, number + 1) for number in range(steps)]
    found = asyncio.run(
        evaluate(task, parts.player, parts.rewards, n=50, decoding=config.decoding, key=parts.key.derive("check"))
    )
    furthest, forward, backward, metrics = zip(*rows, strict=True)
    return ControlRun(found.success, furthest, forward, backward, metrics)


def _step(parts: RunContext, number: int) -> tuple[float, float, float, Metrics]:
    policy = parts.lead.policy
    before = policy.frozen_copy()
    result = asyncio.run(train_step(parts, number))
    batch = result.batch
    assert batch is not None
    everything = torch.arange(batch.decisions)
    after = evaluate_detached(policy, batch, {Quantity.LOGP, Quantity.KL_EXACT}, everything, reference=before)
    back = evaluate_detached(before, batch, {Quantity.KL_EXACT}, everything, reference=policy)
    return _furthest(after.logp, batch), _mean(after.kl_exact), _mean(back.kl_exact), result.metrics


def _furthest(logp: torch.Tensor, batch: Batch) -> float:
    return float((logp.double() - batch.logp["behaviour"].values.double()).expm1().abs().max())


def _mean(values: torch.Tensor | None) -> float:
    assert values is not None
    return float(values.double().mean())


def in_words(scores: list[float]) -> str:
    """Mean and extremes of returns."""
    return f"{statistics.mean(scores):.0f} ({min(scores):.0f} to {max(scores):.0f})"

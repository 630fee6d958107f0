"""Combiners: from several named scores to the reward that credit reads.

All of them add up scores level by level; they differ in how they transform the scores of trajectories before. A score
without an opinion (NaN) counts 0. Weights are those of the rewards unless a combiner sets its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, trajectory_of_turn
from hocket.core.signals import REWARD
from hocket.stages import Combine

Weights = Mapping[str, float]


# ---------------------------------------------------------------- shared functions


def sources(batch: Batch) -> dict[str, LevelScores]:
    """The scores to combine, by name; only the sums if the scores are combined already (`Batch.combined`)."""
    settled = batch.combined and REWARD[Level.TRAJECTORY] in batch.scores
    return {n: s for n, s in batch.scores.items() if not settled or n in REWARD.values()}


def summed(batch: Batch, parts: Mapping[str, LevelScores], weights: Weights) -> Batch:
    """The batch with `sum_k w_k r_k` over `parts` as its combined reward at each level."""
    return added_up(batch, {n: LevelScores(s.level, weights.get(n, 1.0) * s.values) for n, s in parts.items()})


def added_up(batch: Batch, parts: Mapping[str, LevelScores]) -> Batch:
    """The batch with the sum of `parts` as its combined reward at each level; that of trajectories is always there."""
    scores = dict(batch.scores)
    scores[REWARD[Level.TRAJECTORY]] = LevelScores(
        Level.TRAJECTORY, torch.zeros(batch.trajectories, dtype=torch.float64)
    )
    for level, name in REWARD.items():
        values = [torch.nan_to_num(part.values) for part in parts.values() if part.level is level]
        if values:
            scores[name] = LevelScores(level, torch.stack(values).sum(0))
    return batch.but(scores=scores)


def spread_over(batch: Batch, level: Level, values: Tensor) -> Tensor:
    """Numbers per trajectory `[N]`, expanded to `level`; a shared turn takes the number of its first trajectory."""
    if level is Level.DECISION:
        return values[batch.occurrences.trajectory]
    return values[trajectory_of_turn(batch)] if level is Level.TURN else values


# ---------------------------------------------------------------- combiners


@dataclass(frozen=True)
class WeightedSum(Combine):
    """reward = sum_k w_k r_k at each level, over the scores that have an opinion (NaN counts as absent).

    `weights` overrides the weights of the rewards that it names.
    """

    weights: Weights | None = None

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        return summed(batch, sources(batch), {**weights, **(self.weights or {})})


@dataclass(frozen=True)
class Gated(Combine):
    """reward = g (w_0 + sum_k w_k r_k), g = product over the gates of [r_gate >= least]: all or nothing.

    The first gate's weight w_0 is the reward for passing all gates; the other scores count only then. A gate without an
    opinion passes. Making Qwen3 Think in Korean (arXiv 2508.10355) says that a judge calibrates the rule's reward. Two
    choices are ours: both must agree, and the gates apply to the other rewards too.

    Attributes:
        gates: the names of the gates' scores. least: the least score that passes.
        weights: overrides the weights of the rewards that it names.
    """

    gates: tuple[str, ...] = ("correct", "judge")
    least: float = 0.5
    weights: Weights | None = None

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        scores = sources(batch)
        failed = torch.zeros(batch.trajectories, dtype=torch.bool)
        gates = [n for n in self.gates if n in scores and scores[n].level is Level.TRAJECTORY]
        for name in gates:
            failed |= scores[name].values < self.least  # False for NaN.
        passed = (~failed).double()
        parts = {}
        for name, score in scores.items():
            if name not in gates:
                parts[name] = LevelScores(score.level, spread_over(batch, score.level, passed) * score.values)
            elif name == gates[0]:
                parts[name] = LevelScores(score.level, passed)
        return summed(batch, parts, {**weights, **(self.weights or {})})

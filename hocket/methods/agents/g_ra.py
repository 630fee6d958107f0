"""Gated reward accumulation: GRPO whose step rewards count only when the outcome is good (G-RA, arXiv:2508.10548).

What single turns and decisions earn is added to the outcome only where that exceeds a threshold, so easy step rewards
are worth nothing in an episode that failed: `GatedAccumulation`, also with several levels of priority.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, trajectory_of_turn
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO
from hocket.rewards.combine import Weights, added_up, sources, spread_over
from hocket.stages import Combine

RETURN = "reward"
"""What environments call the score of what they pay by themselves, turn by turn."""


@dataclass(frozen=True)
class GatedAccumulation(Combine):
    """reward = R + [R > threshold] sum_k w_k r_k: the outcome R opens or shuts the gate for all immediate rewards.

    Gated reward accumulation (G-RA, arXiv 2508.10548). R is the weighted sum of the scores of whole trajectories, and
    what turns and decisions earned is immediate. With `levels` scores are named by priority, the highest first: those
    of a level count only while every level above exceeds its threshold, and scores that are not named come last. (The
    paper's abstract gives the gate; that it chains through several levels is a choice made here.)

    A level's value is the weighted sum of its scores over the trajectory. A level none of whose scores has an opinion,
    such as the verdict on a missing answer, shuts the gate; so does a part that nobody reached. -inf opens a gate, inf
    shuts it. Where nothing scores whole trajectories and no levels are named, the outcome is what an environment itself
    paid (its return, the score `reward`), and the parts it names are immediate; without that either, there is no gate.

    Attributes:
        thresholds: one per level of `levels`, or one for the outcome.
        levels: names of the scores of each level. weights: replaces those of the rewards it names.

    Raises:
        ConfigurationError: on a call, where a batch with scores has none of those that `levels` names.
    """

    thresholds: tuple[float, ...] = (0.0,)
    levels: tuple[tuple[str, ...], ...] = ()
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if len(self.thresholds) != max(1, len(self.levels)):
            raise ValueError(
                f"thresholds needs {max(1, len(self.levels))} numbers, one per level, not {self.thresholds}"
            )
        named = [name for level in self.levels for name in level]
        if len(set(named)) < len(named) or not all(self.levels):
            raise ValueError("every level names at least one score, and no score is in two levels")

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        used = {**weights, **(self.weights or {})}
        given = {
            name: LevelScores(score.level, used.get(name, 1.0) * score.values) for name, score in sources(batch).items()
        }
        is_open = torch.ones(batch.trajectories, dtype=torch.bool)
        parts: dict[str, LevelScores] = {}
        for level, threshold in zip(self._levels(given), self.thresholds, strict=True):
            parts |= {name: _where(batch, given.pop(name), is_open) for name in level}
            is_open = is_open & self._passes(batch, [parts[name] for name in level], threshold)
        parts |= {name: _where(batch, score, is_open) for name, score in given.items()}
        return added_up(batch, parts)

    def _levels(self, given: dict[str, LevelScores]) -> list[list[str]]:
        if not self.levels:
            whole = [name for name, score in given.items() if score.level is Level.TRAJECTORY]
            return [whole or [name for name in given if name == RETURN]]
        named = [name for level in self.levels for name in level]
        # One that is missing may be a part that no episode of this batch reached.
        if given and not any(name in given for name in named):
            raise ConfigurationError(f"combine.levels: there is no score {named[0]!r}{nearest(named[0], given)}")
        return [[name for name in level if name in given] for level in self.levels]

    def _passes(self, batch: Batch, scores: list[LevelScores], threshold: float) -> Tensor:
        """Whether the level's value exceeds its threshold, `[N]` bool; not where nothing has an opinion."""
        if threshold == float("-inf") or not (scores or self.levels):  # Nothing to judge by: no gate.
            return torch.ones(batch.trajectories, dtype=torch.bool)
        value = torch.zeros(batch.trajectories, dtype=torch.float64)
        known = torch.zeros(batch.trajectories, dtype=torch.bool)
        for score in scores:
            total, heard = _totals(batch, score)
            value, known = value + total, known | heard
        return known & (value > threshold)


def _where(batch: Batch, score: LevelScores, is_open: Tensor) -> LevelScores:
    """The score of the trajectories whose gate is open; no opinion elsewhere, which counts 0."""
    opened = spread_over(batch, score.level, is_open.double()) > 0
    return LevelScores(score.level, torch.where(opened, score.values, torch.nan))


def _totals(batch: Batch, score: LevelScores) -> tuple[Tensor, Tensor]:
    """A score's sum over each trajectory, and whether it has any opinion there; both `[N]`."""
    if score.level is Level.TRAJECTORY:
        return score.values.nan_to_num(), ~score.values.isnan()
    owner = batch.occurrences.trajectory if score.level is Level.DECISION else trajectory_of_turn(batch)
    heard = (~score.values.isnan()).double()
    return (
        segment_sum(score.values.nan_to_num(), owner, batch.trajectories),
        segment_sum(heard, owner, batch.trajectories) > 0,
    )


G_RA = GRPO.but(
    name="g-ra",
    title="Gated Reward Accumulation",
    source="arXiv:2508.10548 (abstract)",
    family="agents",
    catalogue_ids=("g-ra",),
    axes=("reward", "credit"),
    formula="R = R_long + 1[R_long > tau] sum_t r_t,  then GRPO",
    conventions={
        **GRPO.conventions,
        "tau": "combine.thresholds = (0,): any positive outcome opens the gate",
        "outcome": "scores of whole trajectories; in an environment its return",
        "what is immediate": "scores of turns and decisions, in an environment the parts it names; combine.levels "
        "orders named scores instead, each level counting only while all above it exceed their thresholds (chosen "
        "here; the abstract has one gate)",
        "outcome without an opinion": "shuts the gate, as an empty patch does",
        "tool output": TURNS["tool output"],
    },
    task="calculator?digits=5&call_reward=0.2",
    requires=(Requirement.TURN_REWARDS,),
    combine=GatedAccumulation(),
)

"""From several named scores to the reward that credit reads.

All of them sum level by level; they differ in what they do to the scores of whole trajectories before. A score without
an opinion (NaN) counts 0. Weights are those of the rewards unless a combiner names its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hocket.core.columns import info_or_metadata
from hocket.segments import segment_extreme, segment_mean, segment_std
from hocket.signals import REWARD, counted_trajectories
from hocket.stages import Combine
from hocket.types import Batch, GroupBy, Level, LevelScores, trajectory_of_turn

Weights = Mapping[str, float]


# ---------------------------------------------------------------- what combiners share


def sources(batch: Batch, weights: Weights) -> dict[str, LevelScores]:
    """The scores to be combined, by name.

    Recorded batches come without weights; there a score called `reward` is the combined one already.
    """
    settled = not weights and REWARD[Level.TRAJECTORY] in batch.scores
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
    """Numbers per trajectory `[N]` at the places of `level`; a shared turn takes that of its first trajectory."""
    if level is Level.DECISION:
        return values[batch.occurrences.trajectory]
    return values[trajectory_of_turn(batch)] if level is Level.TURN else values


# ---------------------------------------------------------------- combiners


@dataclass(frozen=True)
class WeightedSum(Combine):
    """reward = sum_k w_k r_k at each level, over the scores that have an opinion (NaN counts as absent).

    Without any weights, a score named `reward` decides alone. `weights` replaces those of the rewards it names.
    """

    weights: Weights | None = None

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        return summed(batch, sources(batch, weights), {**weights, **(self.weights or {})})


def standardised(values: Tensor, used: Tensor, group: Tensor, size: int, *, ddof: int, epsilon: float) -> Tensor:
    """`(x - mean_g x) / (std_g x + epsilon)` over the members `used` `[N]` bool, 0 for the others; `[N]`.

    Exactly 0 where the members of a group are equal.
    """
    result = torch.zeros_like(values)
    own, index = values[used], group[used]
    spread = segment_std(own, index, size, ddof=ddof)[index]
    differ = segment_extreme(own, index, size, largest=True) > segment_extreme(own, index, size, largest=False)
    centred = own - segment_mean(own, index, size)[index]
    divisor = spread + epsilon
    result[used] = torch.where(differ[index] & (divisor > 0), centred / divisor, torch.zeros_like(own))
    return result


@dataclass(frozen=True)
class NormalisedSum(Combine):
    """reward = sum_k w_k (r_k - mean_g r_k) / (std_g r_k + epsilon): each score normalised in its group, then summed.

    The scale of a score cancels, so only the weights trade them off; `WeightedSum` before a normalising credit sums
    first, and the score of the largest spread decides. Scores of turns and decisions are summed as they are.
    Trajectories of weight 0, and scores without an opinion, enter no statistic and get 0. Formula derived here from
    the two orders that multi-objective GRPO leaves open; the order itself is GDPO's (arXiv 2601.05242).
    """

    by: GroupBy = GroupBy("scenario")
    weights: Weights | None = None
    ddof: int = 1
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("scores of whole trajectories are normalised: by may not name a column of turns")

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        parts, groups, used = {}, self.by(batch), counted_trajectories(batch)
        for name, score in sources(batch, weights).items():
            if score.level is Level.TRAJECTORY:
                known = used & ~score.values.isnan()
                values = torch.nan_to_num(score.values.double())
                values = standardised(values, known, groups.index, groups.size, ddof=self.ddof, epsilon=self.epsilon)
                score = LevelScores(Level.TRAJECTORY, values)
            parts[name] = score
        return summed(batch, parts, {**weights, **(self.weights or {})})


@dataclass(frozen=True)
class WeightedByTask(Combine):
    """reward = sum_k w_{task(x), k} r_k: a mixture of scores per task (Dr Genre, arXiv 2503.06781).

    Attributes:
        weights: by task, then by score; a task or score not named keeps the weights of the rewards.
        key: the column of `batch.info`, or else the entry of the scenario's metadata, that names the task.
    """

    weights: Mapping[str, Weights] = field(default_factory=dict)
    key: str = "task"

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        tasks = info_or_metadata(batch, self.key)
        parts = {}
        for name, score in sources(batch, weights).items():
            own = [self.weights.get(str(task), {}).get(name, weights.get(name, 1.0)) for task in tasks]
            share = spread_over(batch, score.level, torch.tensor(own, dtype=torch.float64))
            parts[name] = LevelScores(score.level, share * score.values)
        return added_up(batch, parts)


@dataclass(frozen=True)
class Gated(Combine):
    """reward = g (w_0 + sum_k w_k r_k), g = product over the gates of [r_gate >= least]: all or nothing.

    The first gate's weight w_0 is paid once for passing all; the other scores count only then. A gate without an
    opinion does not bar. Making Qwen3 Think in Korean (arXiv 2508.10355) says that a judge calibrates the rule's
    reward; that both must agree, and that this bars the other rewards too, is chosen here.

    Attributes:
        gates: names of scores that bar. least: what a gate's score must reach.
        weights: replaces those of the rewards it names.
    """

    gates: tuple[str, ...] = ("correct", "judge")
    least: float = 0.5
    weights: Weights | None = None

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        given = sources(batch, weights)
        barred = torch.zeros(batch.trajectories, dtype=torch.bool)
        paid = [n for n in self.gates if n in given and given[n].level is Level.TRAJECTORY]
        for name in paid:
            barred |= given[name].values < self.least  # NaN is not below anything
        passed = (~barred).double()
        parts = {}
        for name, score in given.items():
            if name not in paid:
                parts[name] = LevelScores(score.level, spread_over(batch, score.level, passed) * score.values)
            elif name == paid[0]:
                parts[name] = LevelScores(score.level, passed)
        return summed(batch, parts, {**weights, **(self.weights or {})})


@dataclass(frozen=True)
class RuleOverModel(Combine):
    """accuracy = c rule + (1 - c) model where the rule has an opinion, else the model's; the other scores are added.

    A checker overrides a reward model by its confidence c (Hybrid and Multi-Aspect Reward Optimisation, arXiv
    2510.05283, which gives no formula: the mixture is chosen here). Where the model has none, the rule's stands.

    Attributes:
        rule, model: names of the two scores. The mixture is weighted like the model's.
        confidence: c in [0, 1], or the name of a score that gives it per trajectory (then added to nothing).
    """

    rule: str = "correct"
    model: str = "model"
    confidence: float | str = 1.0
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.confidence, str) and not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence must lie in [0, 1] or name a score, not {self.confidence}")

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        given = dict(sources(batch, weights))
        sure = given.pop(self.confidence, None) if isinstance(self.confidence, str) else None
        if self.rule in given and self.model in given:
            rule, model = given.pop(self.rule), given[self.model]
            constant = 1.0 if isinstance(self.confidence, str) else float(self.confidence)
            share = torch.full_like(model.values, constant) if sure is None else sure.values.nan_to_num(1.0).clamp(0, 1)
            given[self.model] = LevelScores(model.level, mixed(rule.values, model.values, share))
        return summed(batch, given, {**weights, **(self.weights or {})})


def mixed(rule: Tensor, model: Tensor, confidence: Tensor) -> Tensor:
    """`c rule + (1 - c) model`, `[N]`; where only one of them has an opinion (is not NaN), that one."""
    both = confidence * rule + (1 - confidence) * model
    return torch.where(rule.isnan(), model, torch.where(model.isnan(), rule, both))

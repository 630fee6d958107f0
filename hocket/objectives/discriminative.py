"""Right answers ranked above wrong ones by their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.objectives.aggregate import counted_lengths, trajectory_means
from hocket.objectives.ratios import log_ratios, saturated
from hocket.segments import segment_count, segment_extreme, segment_mean, segment_sum
from hocket.stages import Objective
from hocket.types import Batch, Column, Evaluation, GroupBy, Level, Quantity, Terms

Score = Literal["logp", "ratio"]


def discrimination(
    score: Tensor, right: Tensor, wrong: Tensor, group: Tensor, size: int, temperature: float | None
) -> Tensor:
    """x_g = temperature * log mean_wrong exp(s/temperature) - mean_right s per group, `[size]`; 0 without both kinds.

    `score`, the masks and `group` are `[N]`. As the temperature grows (None is its limit) the first term becomes the
    mean of s over the wrong; as it falls, the highest wrong score.
    """
    both = (segment_count(group[right], size) > 0) & (segment_count(group[wrong], size) > 0)
    up = segment_mean(score[right], group[right], size)
    if temperature is None:
        down = segment_mean(score[wrong], group[wrong], size)
    else:
        highest = segment_extreme(score.detach()[wrong], group[wrong], size, largest=True)
        scaled = ((score[wrong] - highest[group[wrong]]) / temperature).exp()
        average = segment_sum(scaled, group[wrong], size) / segment_count(group[wrong], size).clamp(min=1)
        down = temperature * torch.where(both, average, torch.ones_like(average)).log() + highest
    return torch.where(both, down - up, torch.zeros_like(up))


@dataclass(frozen=True)
class Discriminative(Objective):
    """DisCO's objective (arXiv 2505.12366): per question, the (soft) highest wrong score minus the mean right one.

    Right and wrong are trajectories of positive and of negative advantage; how large it is plays no part, so that no
    question weighs more for being of middling difficulty. The mean is over all questions that count; one without both
    kinds adds 0. It has no ratio to clip: pair it with `HingeTrustRegion`.

    Attributes:
        score: `logp`, the mean log-prob over a trajectory's decisions, or `ratio`, the mean of pi/pi_old.
        temperature: of the soft-max over wrong answers; None takes their plain mean (DisCO-b). The scripts have 10 with
            `logp` and 1 with `ratio`.
    """

    score: Score = "logp"
    temperature: float | None = 10.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.GROUP
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.score not in get_args(Score):
            raise ValueError(f"score is {self.score!r}; choose from {', '.join(get_args(Score))}")
        if self.temperature is not None and self.temperature <= 0:
            raise ValueError(f"temperature must be None or positive, not {self.temperature}")

    @property
    def reads(self) -> frozenset[Column]:
        return frozenset({Column.BEHAVIOUR} if self.score == "ratio" else ())

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        logp = now.logp[seen.decision] if self.score == "logp" else saturated(log_ratios(now, batch)).exp()
        score = trajectory_means(logp, batch)
        verdict = trajectory_means(seen.advantage.detach().to(logp.dtype), batch)
        counted = counted_lengths(batch) > 0
        right, wrong = counted & (verdict > 0), counted & (verdict < 0)
        groups = GroupBy("scenario")(batch)
        value = discrimination(score, right, wrong, groups.index, groups.size, self.temperature)
        asked = segment_count(groups.index[counted], groups.size) > 0
        weight = asked.to(value.dtype) / asked.sum().clamp(min=1)
        return Terms(value, weight, Level.GROUP, {"scores/gap": -(value.detach() * weight).sum().double()})

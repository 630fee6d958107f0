"""Training of scorers from pairs, labels and numbers. A score is an output after a decision (`Quantity.SCORE`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.signals import standing
from hocket.objectives.aggregate import counted_lengths, mean, share, trajectory_sums
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class ScoreLoss(Objective):
    """The base of losses of scores.

    Attributes:
        output: the index of the trained output, from 0.

    Raises:
        ValueError: for a negative output.
    """

    output: int = 0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.SCORE})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.output < 0:
            raise ValueError(f"output is counted from 0, not {self.output}")

    @property
    def outputs(self) -> int:
        return self.output + 1

    def scores(self, now: Evaluation, batch: Batch) -> Tensor:
        """The score after each occurrence, `[E]`."""
        every = now.get(Quantity.SCORE)
        return (every[:, self.output] if every.dim() > 1 else every)[batch.occurrences.decision]


@dataclass(frozen=True)
class BradleyTerry(ScoreLoss):
    """Minimises the mean over pairs of w (-t log sigmoid(h) - (1-t) log sigmoid(-h) + c (r_w + r_l)^2).

    h = r_w - r_l - m, and r is the weighted sum of a trajectory's scores over its occurrences, so credit determines
    where scores are read (`hocket.credit.ReadAt`). Weight w, margin m and target probability t are those of the pair,
    else 1, 0 and 1 (Bradley and Terry 1952; margins as in Llama 2, arXiv 2307.09288, eq. 2). A pair counts if both
    members have a counted decision and its weight is not 0.

    Attributes:
        label_smoothing: probability that a preference is reversed, in [0, 0.5).
        centring: c, which pulls the sum of a pair's scores towards 0 (Eisenstein et al., arXiv 2312.09244, section 2).

    Raises:
        ValueError: for a setting out of range. HocketError: on a call, for a batch without pairs.
    """

    label_smoothing: float = 0.0
    centring: float = 0.0

    couples: ClassVar[Level] = Level.PAIR
    held_out: ClassVar[str | None] = "pairs/accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.label_smoothing < 0.5 or self.centring < 0:
            raise ValueError(
                f"label_smoothing must lie in [0, 0.5) and centring be at least 0, not {self.label_smoothing} and "
                f"{self.centring}"
            )

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        if occurrences.pairs is None:
            raise HocketError("the loss compares pairs, but credit gave none; use a credit that pairs trajectories")
        if occurrences.compared is not None:
            raise HocketError("credit pairs turns, and scores are of trajectories; use a credit that pairs these")
        scores = self.scores(now, batch)
        reward = trajectory_sums(scores, batch)
        better, worse = reward[occurrences.pairs[:, 0]], reward[occurrences.pairs[:, 1]]

        def carried(numbers: Tensor | None, usual: float) -> Tensor:
            return torch.full_like(better, usual) if numbers is None else numbers.to(better.dtype)

        target = carried(occurrences.pair_target, 1.0)
        target = target * (1 - self.label_smoothing) + (1 - target) * self.label_smoothing
        value = binary_cross_entropy_with_logits(
            better - worse - carried(occurrences.pair_margin, 0.0), target, reduction="none"
        )
        if self.centring:
            value = value + self.centring * (better + worse).square()
        weight = carried(occurrences.pair_weight, 1.0)
        counted = (counted_lengths(batch)[occurrences.pairs] > 0).all(1) & (weight != 0)
        metrics = {
            "pairs/total": counted.sum().double(),
            "pairs/accuracy": share(better > worse, counted),
            "pairs/margin": mean(better - worse, counted),
            "pairs/chosen": mean(better, counted),
            "pairs/rejected": mean(worse, counted),
        }
        return Terms(value, counted * weight / counted.sum().clamp(min=1), Level.PAIR, metrics)


@dataclass(frozen=True)
class ScoredAlone(ScoreLoss):
    """The base of losses of single scores, which are read where the score `of` applies, see `standing`.

    Attributes:
        of: the name of the score that is the target.
    """

    of: str = "reward"

    couples: ClassVar[Level] = Level.DECISION

    def goals(self, batch: Batch, like: Tensor) -> tuple[Tensor, Tensor]:
        """The targets, `[E]`, 0 without one, and which occurrences count, `[E]` bool."""
        goal = standing(batch, self.of)
        counted = (batch.occurrences.weight != 0) & ~goal.isnan()
        return torch.where(counted, goal, torch.zeros_like(goal)).to(like.dtype), counted

    def terms(self, value: Tensor, batch: Batch, counted: Tensor, metrics: dict[str, float | Tensor]) -> Terms:
        """The weighted mean over the counted occurrences."""
        weight = counted * batch.occurrences.weight.to(value.dtype) / counted.sum().clamp(min=1)
        return Terms(value, weight, metrics=metrics)


@dataclass(frozen=True)
class LabelledScore(ScoredAlone):
    """Minimises the mean of -y log sigmoid(s) - (1-y) log sigmoid(-s) over labels y in [0, 1]: a logistic classifier.

    The score is the log-odds that a labelled answer, turn or step is good.

    Raises:
        ConfigurationError: on a call, for a label outside [0, 1].
    """

    of: str = "label"

    held_out: ClassVar[str | None] = "labels/accuracy"

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        score = self.scores(now, batch)
        label, counted = self.goals(batch, score)
        if not ((label >= 0) & (label <= 1)).all():
            raise ConfigurationError(
                f"the score {self.of!r} is a label and must lie in [0, 1]; regress on other numbers (reward-regression)"
            )
        good = label >= 0.5
        metrics: dict[str, float | Tensor] = {
            "labels/total": counted.sum().double(),
            "labels/accuracy": share((score > 0) == good, counted),
            "labels/good": share(good, counted),
            "labels/score_good": mean(score, counted & good),
            "labels/score_bad": mean(score, counted & ~good),
        }
        value = binary_cross_entropy_with_logits(score, label, reduction="none")
        return self.terms(value, batch, counted, metrics)


@dataclass(frozen=True)
class RegressedScore(ScoredAlone):
    """Minimises the mean of (s - y)^2 over numbers y, by default the combined reward of whole trajectories."""

    held_out: ClassVar[str | None] = "scores/explained"

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        score = self.scores(now, batch)
        goal, counted = self.goals(batch, score)
        error = (score - goal).square()
        targets = goal.detach()[counted].double()
        spread = (targets - targets.mean()).square().mean() if len(targets) else targets.sum()
        metrics: dict[str, float | Tensor] = {
            "scores/total": counted.sum().double(),
            "scores/error": mean(error, counted).sqrt(),
            "scores/explained": 1 - mean(error, counted) / spread if spread > 0 else torch.nan,
        }
        return self.terms(error, batch, counted, metrics)

"""DisCO: right answers are ranked above wrong ones, within a trust region (Li et al., arXiv:2505.12366).

In place of GRPO's advantage, which weighs questions by their difficulty, `Discriminative` sets a group's mean right
score against its highest wrong ones, softly; in place of a clip, `HingeTrustRegion` charges KL beyond a radius.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_extreme, segment_mean, segment_sum
from hocket.credit.verdicts import Verdicts
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import counted_lengths, single_term, trajectory_means, weighted_total, weights
from hocket.objectives.divergence import kl_estimate
from hocket.objectives.drift import reach
from hocket.objectives.ratios import log_ratios, saturated
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

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


@dataclass(frozen=True)
class HingeTrustRegion(Objective):
    """Adds coefficient/2 * max(0, KL(pi_old || pi) - radius)^2: nothing inside the ball, a spring outside.

    DisCO (arXiv 2505.12366); radius 1e-4 and coefficient 1e3 are its scripts'. KL is the mean over counted decisions of
    an unbiased estimate, r - 1 - log r (`k3`) or -log r (`k1`), r = pi/pi_old; so its gradient is
    coefficient * max(0, KL - radius) * grad KL. Log-ratios saturate at +-50 nats, in float32 at 40, since r is squared.
    """

    radius: float = 1e-4
    coefficient: float = 1e3
    estimator: Literal["k1", "k3"] = "k3"

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.BATCH
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.radius < 0 or self.coefficient < 0:
            raise ValueError(f"radius and coefficient must be at least 0, not {self.radius} and {self.coefficient}")
        if self.estimator not in ("k1", "k3"):
            raise ValueError(f"estimator must be 'k1' or 'k3', not {self.estimator!r}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        # The roles are exchanged: samples are of pi_old, so log pi_old - log pi is what k1 averages.
        log_ratio = log_ratios(now, batch)
        estimate = kl_estimate(-saturated(log_ratio, reach(log_ratio.dtype, 2)), self.estimator)
        weight = weights(batch, "token-mean", dtype=estimate.dtype)
        divergence = weighted_total(estimate, weight)
        value = self.coefficient / 2 * (divergence - self.radius).clamp(min=0).square()
        return Terms(value[None], single_term(weight), Level.BATCH, {"kl/trust": divergence.detach().double()})


DISCO = GRPO.but(
    name="disco",
    title="Discriminative Constrained Optimisation",
    source="Li et al., arXiv:2505.12366",
    catalogue_ids=("disco",),
    axes=("objective",),
    formula="L = mean_q [tau log mean_wrong exp(s/tau) - mean_right s] + beta/2 max(0, KL(old || pi) - delta)^2,  "
    "s = mean_t log pi",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "right": "reward above the group's mean: for rewards in {0, 1} reward 1, in a mixed group; others are silent",
        "aggregation": "scores are means over decisions; mean over all scenarios, those of one verdict adding 0",
        "clipping side": "nothing is clipped",
        "temperature of the soft-max": "10, as in the scripts for log-prob scores; null is DisCO-b's plain mean",
        "trust region": "mean of r - 1 - log r over the batch's decisions, radius 1e-4, coefficient 1e3 (scripts); "
        "the scripts' estimate is -log r (regularisers.0.estimator = k1), which may be negative",
        "updates per batch": "2: in the first the policies are equal and the trust region is silent; the scripts make "
        "4, from quarters of a batch",
        "temperature of sampling": "the run's, 1 unless set; the scripts sample at 0.6 and score at 1",
    },
    credit=Verdicts(),
    objective=Discriminative(score="logp", temperature=10.0),
    regularisers=(HingeTrustRegion(radius=1e-4, coefficient=1e3),),
    **{"update.epochs": 2},
)

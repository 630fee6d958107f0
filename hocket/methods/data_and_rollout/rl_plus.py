"""RL-PLUS: own samples and an expert's, with an importance weight that is bounded (Dong et al., arXiv:2508.00222).

In each group one answer is an expert's (`WithExpert`). Whom it was sampled by is unknown; `MixedImportance` takes a
mixture of the old policy and an uninformative upper value for it, whose ratio is bounded, and gives most weight to
right tokens that the policy finds unlikely. Mean and deviation are the own samples' alone (`AgainstOwn`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_count, segment_mean, segment_std
from hocket.credit.formulas import centred
from hocket.credit.units import trajectory_units
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import anchor, log_ratios, saturated
from hocket.objectives.surrogate import clipped_surrogate, cut
from hocket.rollout.experts import WithExpert
from hocket.stages import Credit, Objective
from hocket.types import Evaluation, Quantity, Terms


def external(batch: Batch) -> Tensor:
    """Which trajectories are an expert's, `[N]` bool."""
    names = batch.names["source"]
    return batch.source == (names.index("expert") if "expert" in names else -1)


@dataclass(frozen=True)
class AgainstOwn(Credit):
    """`A_i = (R_i - mean_own R) / (std_own R + epsilon)`: all of a group against the policy's own samples of it.

    RL-PLUS (arXiv 2508.00222, released code). Where the own samples are all equal their deviation counts as 1; one own
    sample alone has mean 0 and deviation 1, and none likewise (chosen here). Without experts it is `GroupRelative`.
    """

    epsilon: float = 1e-6

    least_samples: ClassVar[int] = 2

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = trajectory_units(batch)
        group, size = units.groups(GroupBy("scenario"), batch)
        own = units.counted & ~external(batch)
        value, mine = units.value[own], group[own]
        several = segment_count(mine, size) > 1
        middle = centred(value, mine, size)
        mean = torch.where(several, segment_mean(value, mine, size), 0.0)
        deviation = segment_std(middle, mine, size, ddof=1)
        deviation = torch.where(several & (deviation > 0), deviation, 1.0) + self.epsilon
        credit = torch.where(units.counted, units.value - mean[group], 0.0)
        # Equal returns differ by nothing, whatever their mean rounds to.
        credit[own] = torch.where(several[mine], middle, credit[own])
        advantage = credit / deviation[group]
        return replace(batch.occurrences, advantage=advantage[units.member])


def mixture_ratio(probability: Tensor, old: Tensor, upper: float) -> Tensor:
    """`2 pi / (w + pi_old)`, `w = (pi_old + u) / 2` the estimate of an unknown behaviour policy; same shape.

    At most `2 pi / (u / 2)`, so its variance is finite, while that of pi / mu may not be.
    """
    return 2 * probability / (0.5 * (old + upper) + old)


@dataclass(frozen=True)
class MixedImportance(Objective):
    """The clipped surrogate on own samples, `-2 pi/(w + pi_old) A (1 - pi)^gamma` on an expert's: RL-PLUS.

    arXiv 2508.00222 and the released code: w = (pi_old + u)/2 stands for the behaviour policy that nobody knows, and
    the factor (1 - pi)^gamma, a constant to the gradient, enlarges what is right and unlikely. No clip on experts.

    Attributes:
        low, high: of the own samples' clip. upper: u. novelty: gamma; 0 leaves the factor out.
        aggregate, horizon: see `hocket.objectives.aggregate`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    upper: float = 1.0
    novelty: float = 0.5
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.upper <= 0 or self.novelty < 0:
            raise ValueError(f"upper must be positive and novelty at least 0, not {self.upper} and {self.novelty}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        ratio = saturated(log_ratios(now, batch)).exp()
        own = clipped_surrogate(ratio, advantage, self.low, self.high)
        probability = now.logp[seen.decision].exp()
        mixed = mixture_ratio(probability, anchor(batch)[seen.decision].to(dtype).exp(), self.upper)
        weight = advantage * (1 - probability.detach()).clamp(min=0) ** self.novelty
        given = external(batch)[seen.trajectory]
        active = (seen.weight != 0) & (seen.advantage != 0)
        clipped = cut(ratio.detach(), advantage, self.low, self.high)
        metrics = {"ratio/clipped": share(clipped, active & ~given), "ratio/mixed": _mean(mixed, active & given)}
        value = torch.where(given, -mixed * weight, own)
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), metrics=metrics)


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return values.detach()[where].mean() if bool(where.any()) else torch.zeros((), dtype=values.dtype)


RL_PLUS = GRPO.but(
    name="rl-plus",
    title="Hybrid-policy optimisation: an expert's answers by a bounded mixture ratio",
    source="Dong et al., RL-PLUS, arXiv:2508.00222; YihongDong/RL-PLUS",
    family="data-and-rollout",
    catalogue_ids=("rl-plus",),
    axes=("objective", "rollout", "credit"),
    formula="own: min(r A, clip(r) A);  expert: 2 pi/(w + pi_old) A (1 - sg pi)^gamma, w = (pi_old + u)/2;  "
    "A_i = (R_i - mean_own R)/(std_own R + eps)",
    conventions={
        **GRPO.conventions,
        "expert": "metadata['demonstration'] or the answer as text; one of eight",
        "constants": "u = 1, gamma = 0.5, as in the released code",
        "constant group": "equal own samples have advantage 0, an expert beside them its distance",
        "released settings": "neither a deviation nor a clip on own samples, sums over a constant length; the paper's "
        "formulas here",
        "old policy": "an expert's are the learner's own log-probs before the update",
    },
    task="worked-sums",
    requires=(Requirement.DEMONSTRATIONS,),
    rollout=WithExpert(samples=8, experts=1),
    credit=AgainstOwn(),
    objective=MixedImportance(),
)

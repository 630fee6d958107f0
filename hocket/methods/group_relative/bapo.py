"""BAPO: GRPO whose clip bounds move until good samples have their share (Xi et al., arXiv:2510.18927).

Before each update `AdaptiveClip` raises the lower bound, then the upper one, until decisions of positive advantage make
up half of what carries a gradient (`positive_share`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
from hocket.objectives.surrogate import clipped_surrogate, cut
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def positive_share(
    ratio: Tensor, gain: Tensor, low: float, high: float, dual: float | None, *, clipped: bool = False
) -> float:
    """The positive part of sum |r A| over the decisions whose gradient the clip to [low, high] leaves, in [0, 1].

    `ratio` and `gain` (weighted advantages) are `[E]`. 1 where nothing is left to balance. It rises with `high`, which
    lets positive decisions in, and with `low`, which takes negative ones out. With `clipped`, as in the released code,
    the others count at their bound: negatives at max(r, low) |A|, which grows with `low` and so works against the
    search.
    """
    if clipped:
        flow = -clipped_surrogate(ratio, gain, 1 - low, high - 1, dual).double()
    else:
        kept = ~cut(ratio, gain, 1 - low, high - 1, dual)
        flow = torch.where(kept, ratio * gain, torch.zeros_like(gain)).double()
    good, bad = float(flow.clamp(min=0).sum()), float((-flow).clamp(min=0).sum())
    return good / (good + bad) if good + bad > 0 else 1.0


@dataclass(frozen=True)
class AdaptiveClip(Objective):
    """BAPO (arXiv 2510.18927): PPO's surrogate, clipped to [c_low, c_high] found anew before each update.

    From (low, high) first c_low, then c_high is raised step by step, up to their limits, until the positive decisions'
    share of the surrogate's gradient-carrying part is at least `share` (see `positive_share`). Bounds are constants of
    the gradient. They depend on every decision, so the loss couples the batch.

    Attributes:
        low, low_limit, low_step: of the lower bound of the ratio itself (0.6 is PPO's 1 - 0.4).
        high, high_limit, high_step: of the upper bound.
        share: what positive decisions should have, in [0, 1].
        dual: where the ratio of a negative decision ends to matter (dual clip); None for none.
        clipped: decisions without a gradient count in the share at their bound, as in the released code.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.6
    low_limit: float = 0.9
    low_step: float = 0.05
    high: float = 1.2
    high_limit: float = 3.0
    high_step: float = 0.1
    share: float = 0.5
    dual: float | None = 3.0
    clipped: bool = False
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.BATCH
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if not 0 <= self.low <= self.low_limit <= 1 <= self.high <= self.high_limit:
            raise ValueError(
                "bounds must satisfy 0 <= low <= low_limit <= 1 <= high <= high_limit, not "
                f"{self.low}, {self.low_limit}, {self.high}, {self.high_limit}"
            )
        if self.low_step <= 0 or self.high_step <= 0:
            raise ValueError(f"low_step and high_step must be positive, not {self.low_step} and {self.high_step}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")
        if self.dual is not None and self.dual <= 1:
            raise ValueError(f"dual must exceed 1, not {self.dual}")

    def bounds(self, ratio: Tensor, gain: Tensor) -> tuple[float, float]:
        """(c_low, c_high) for these ratios and weighted advantages, `[E]`."""
        low, high = self.low, self.high
        number = 0
        while low < self.low_limit and self._share(ratio, gain, low, high) < self.share:
            number += 1
            low = min(self.low + number * self.low_step, self.low_limit)
        number = 0
        while high < self.high_limit and self._share(ratio, gain, low, high) < self.share:
            number += 1
            high = min(self.high + number * self.high_step, self.high_limit)
        return low, high

    def _share(self, ratio: Tensor, gain: Tensor, low: float, high: float) -> float:
        return positive_share(ratio, gain, low, high, self.dual, clipped=self.clipped)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        log_ratio = log_ratios(now, batch)
        ratio = saturated(log_ratio).exp()
        weight = weights(batch, self.aggregate, self.horizon, dtype=dtype)
        active = (weight != 0) & (advantage != 0)
        fixed, gain = ratio.detach()[active], (weight * advantage)[active]
        low, high = self.bounds(fixed, gain)
        value = clipped_surrogate(ratio, advantage, 1 - low, high - 1, self.dual)
        clipped = cut(ratio.detach(), advantage, 1 - low, high - 1, self.dual)
        metrics: dict[str, float | Tensor] = {
            "clip/low": low,
            "clip/high": high,
            "clip/positive": self._share(fixed, gain, low, high),
            "ratio/clipped": share(clipped, active),
            "ratio/saturated": saturation(log_ratio, active),
        }
        return Terms(value, weight, Level.BATCH, metrics)


BAPO = GRPO.but(
    name="bapo",
    title="Balanced Policy Optimisation with adaptive clipping",
    source="Xi et al., arXiv:2510.18927",
    catalogue_ids=("bapo",),
    axes=("objective",),
    formula="L = -1/sum_i n_i sum_it min(r A, clip(r, c_low, c_high) A), at least 3 A for A < 0;  "
    "c_low from 0.6 to 0.9, then c_high from 1.2 to 3, until the positive share is 1/2",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "both, found anew before each update; dual clip at 3",
        "positive share": "of sum |r A| over decisions that carry a gradient; the released code counts clipped ones "
        "too, at their bound (objective.clipped)",
        "search": "the lower bound first, steps of 0.05, then the upper, steps of 0.1",
        "updates per batch": "2",
    },
    note="On stale samples it learnt more than with a fixed clip and did not collapse, but that entropy stays higher, "
    "as the paper reports, was not seen at equal steps.",
    objective=AdaptiveClip(),
    **{"update.epochs": 2},
)

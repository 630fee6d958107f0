"""Clip-Cov and KL-Cov: against the collapse of entropy, at the few tokens that cause it (Cui et al., arXiv:2505.22617).

Entropy falls by the covariance of log-prob and advantage, most of which comes from few tokens: likely ones that are
praised. `CovarianceClip` takes the gradient of some of them away; `CovariancePenalty` holds them to the old policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
from hocket.objectives.surrogate import clipped_surrogate, cut
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def covariances(logp: Tensor, advantage: Tensor) -> Tensor:
    """`(log pi_k - mean log pi)(A_k - mean A)` over the K decisions given, `[K]`, constants."""
    logp = logp.detach()
    return (logp - logp.mean()) * (advantage - advantage.mean())


@dataclass(frozen=True)
class CovarianceClip(Objective):
    """PPO's surrogate without some decisions whose covariance of log-prob and advantage is large: Clip-Cov.

    Of the decisions that the clip leaves and whose covariance (see `covariances`) lies between `lowest` and `highest`,
    `portion` of all decisions, at least one, lose their gradient, drawn by a key of how many there are; they stay in
    the denominators. Covariances depend on every decision, so the loss couples the batch.

    Attributes:
        low, high: of PPO's clip; the release for Clip-Cov sets both to 1.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    portion: float = 2e-4
    lowest: float = 1.0
    highest: float = 5.0
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.BATCH
    # A decision of advantage 0 still enters the means.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if not 0 < self.portion <= 1:
            raise ValueError(f"portion must lie in (0, 1], not {self.portion}")
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage, log_ratio = seen.advantage.detach().to(dtype), log_ratios(now, batch)
        ratio, used = saturated(log_ratio).exp(), seen.weight != 0
        value = clipped_surrogate(ratio, advantage, self.low, self.high)
        left = used & ~cut(ratio.detach(), advantage, self.low, self.high)
        gone = self._chosen(now.logp[seen.decision], advantage, used, left, batch.order[seen.trajectory])
        metrics = {"covariance/clipped": share(gone, used), "ratio/saturated": saturation(log_ratio, used)}
        weight = weights(batch, self.aggregate, self.horizon, dtype=dtype)
        return Terms(torch.where(gone, torch.zeros_like(value), value), weight, Level.BATCH, metrics)

    def _chosen(self, logp: Tensor, advantage: Tensor, used: Tensor, left: Tensor, place: Tensor) -> Tensor:
        """The occurrences that lose their gradient, `[E]` bool; all arguments `[E]`, `place` in assignment order."""
        found = torch.zeros_like(used)
        if not used.any():
            return found
        covariance = torch.zeros_like(advantage)
        covariance[used] = covariances(logp[used], advantage[used])
        near = torch.nonzero(left & (covariance > self.lowest) & (covariance < self.highest)).flatten()
        near = near[place[near].argsort(stable=True)]  # So that the choice does not depend on the batch's order.
        many = max(int(self.portion * int(used.sum())), 1)
        order = torch.randperm(len(near), generator=Key.of(len(near)).derive("clip-cov").torch())
        found[near[order[:many]]] = True
        return found


@dataclass(frozen=True)
class CovariancePenalty(Objective):
    """Minimises -r A, plus coefficient |log r| at the decisions of largest covariance: KL-Cov.

    They are `portion` of all decisions, at least one; there is no clip. See `covariances`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 1.0
    portion: float = 2e-3
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.BATCH
    # A decision of advantage 0 still enters the means.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if not 0 < self.portion <= 1 or self.coefficient < 0:
            raise ValueError(
                f"portion must lie in (0, 1] and coefficient be at least 0, not {self.portion} and {self.coefficient}"
            )

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage, log_ratio = seen.advantage.detach().to(dtype), log_ratios(now, batch)
        used = seen.weight != 0
        held = torch.zeros_like(used)
        if used.any():
            covariance = covariances(now.logp[seen.decision][used], advantage[used])
            first = batch.order[seen.trajectory][used].argsort(stable=True)
            # Of those that are equal up to rounding the first in assignment order is held.
            largest = first[covariance[first].round(decimals=9).argsort(descending=True, stable=True)]
            many = max(int(self.portion * len(covariance)), 1)
            held[torch.nonzero(used).flatten()[largest[:many]]] = True
        bounded = saturated(log_ratio)
        value = -bounded.exp() * advantage + self.coefficient * torch.where(held, bounded.abs(), 0.0)
        metrics = {"covariance/held": share(held, used), "ratio/saturated": saturation(log_ratio, used)}
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), Level.BATCH, metrics)


CLIP_COV = GRPO.but(
    name="clip-cov",
    title="Clip-Cov: no gradient at some tokens of large covariance",
    source="Cui et al., The Entropy Mechanism of RL for Reasoning Language Models, arXiv:2505.22617; verl 0.9",
    formula="L = -1/sum_i n_i sum_it M_it min(r A, clip(r) A),  M = 0 at 2e-4 of the tokens, among those with "
    "1 < (log pi - mean log pi)(A - mean A) < 5",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch, those without gradient counted",
        "clipping side": "both, 1 each, as the authors run it",
        "choice": "by a key of how many tokens may be chosen; at random in the released code",
        "means": "over all decisions of the batch; in the released code over those of a micro-batch",
        "updates per batch": "2, chosen here; a loss that couples the batch takes all of it at once",
    },
    objective=CovarianceClip(low=1.0, high=1.0),
    **{"update.epochs": 2},
)


KL_COV = GRPO.but(
    name="kl-cov",
    title="KL-Cov: the tokens of largest covariance are held to the old policy",
    source=CLIP_COV.source,
    formula="L = -1/sum_i n_i sum_it [r A - [k_it] |log r|],  k the 2e-3 of the tokens whose "
    "(log pi - mean log pi)(A - mean A) is largest",
    conventions={
        **GRPO.conventions,
        "aggregation": CLIP_COV.conventions["aggregation"].partition(",")[0],
        "clipping side": "none",
        "KL": "|log r| to the old policy at the tokens chosen, coefficient 1; at r = 1 it pulls nowhere",
        "portion": "objective.portion = 2e-3, the authors' for 7B; 2e-4 for 32B, and verl's default",
        "means": CLIP_COV.conventions["means"],
        "updates per batch": CLIP_COV.conventions["updates per batch"],
    },
    objective=CovariancePenalty(),
    **{"update.epochs": 2},
)

"""M2PO: a bound on the second moment of log-ratios in place of a clip (Zheng et al., arXiv:2510.01161).

On stale samples a clip silences many tokens that would have taught something. Here only the tokens that moved most are
left out, as many as it takes for the mean squared log-ratio of the others to fall below a threshold (`SecondMoment`).
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
from hocket.objectives.ratios import recorded, saturated, saturation
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def within_moment(squares: Tensor, threshold: float) -> Tensor:
    """Which of `squares` `[K]` remain when the largest go until the mean of the rest is below `threshold`, `[K]` bool.

    The smallest one remains whatever it is.
    """
    kept = torch.ones(len(squares), dtype=torch.bool)
    if not len(squares):
        return kept
    ordered, place = squares.sort(descending=True, stable=True)
    rest = ordered.flip(0).cumsum(0).flip(0) / torch.arange(len(ordered), 0, -1)
    small = torch.nonzero(rest < threshold).flatten()
    gone = int(small[0]) if len(small) else len(ordered) - 1
    kept[place[:gone]] = False
    return kept


@dataclass(frozen=True)
class SecondMoment(Objective):
    """Minimises -M r A, r = pi / pi_behaviour: M is 0 at the decisions whose (log r)^2 is largest, 1 elsewhere.

    So many are 0 that the mean of (log r)^2 over the others is below `threshold` (see `within_moment`). The masks
    depend on every decision, so the loss couples the batch.

    Attributes:
        threshold: tau, nats squared.
        counted: masked decisions stay in the denominators, as in the paper; AReaL takes them out.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    threshold: float = 0.04
    counted: bool = True
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.BATCH
    # A decision of advantage 0 still enters the moment.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.threshold <= 0:
            raise ValueError(f"threshold must be positive, not {self.threshold}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        log_ratio = (now.logp - recorded(batch, "behaviour").to(dtype))[seen.decision]
        used = seen.weight != 0
        kept = torch.zeros(len(seen), dtype=torch.bool)
        kept[used] = within_moment(log_ratio.detach()[used].square(), self.threshold)
        value = -saturated(log_ratio).exp() * seen.advantage.detach().to(dtype)
        counted = batch if self.counted else batch.credited(weight=torch.where(kept, seen.weight, 0.0))
        weight = weights(counted, self.aggregate, self.horizon, dtype=dtype)
        metrics = {"moment/masked": share(~kept, used), "ratio/saturated": saturation(log_ratio, used)}
        return Terms(torch.where(kept, value, torch.zeros_like(value)), weight, Level.BATCH, metrics)


M2PO = GRPO.but(
    name="m2po",
    title="Second-Moment Trust Policy Optimisation",
    source="Zheng et al., arXiv:2510.01161; AReaL",
    formula="L = -1/sum_i n_i sum_it M_it r_it A_i,  M = 0 at the largest (log r)^2 until their mean is below tau",
    conventions={
        **GRPO.conventions,
        "clipping side": "none; tokens are masked whatever their advantage. Code for verl bounds the moment of those "
        "alone that a clip could touch, and clips instead of masking",
        "tau": "objective.threshold = 0.04",
        "old policy": "the one that sampled",
        "aggregation": "mean over all decisions of the batch, masked ones counted; AReaL leaves them out "
        "(objective.counted = False), and masks once, before the first update",
        "ratio": "to the policy that sampled; AReaL multiplies by the ratio of the proximal policy to it only with "
        "rejection_sampling, and otherwise weighs by the ratio to the proximal policy alone",
        "updates per batch": "4, chosen here; a loss that couples the batch takes all of it at once. How "
        "much is masked depends on the learning rate: at update.lr = 0.01 a quarter, at the default one nothing",
    },
    note="at the shipped learning rate its mask left three steps on sums as they were; it is seen at work at 0.01",
    objective=SecondMoment(),
    **{"update.epochs": 4},
)

"""VESPO: a smooth weight of whole answers' ratios in place of a clip (Shen et al., arXiv:2602.10693).

The weight of an answer is its sequence-level ratio shaped by a gamma density: 1 where nothing has moved, and fading
towards 0 both for answers that became improbable and for those that became much more probable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.segments import segment_sum
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, weights
from hocket.objectives.ratios import log_ratios
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

LOWEST, HIGHEST = math.log(1e-8), 20.0
"""Where the logarithm of a sequence's ratio is cut."""


def gamma_weight(log_ratio: Tensor, power: Tensor, decay: Tensor) -> Tensor:
    """`phi(w) = w^k exp(lambda (1 - w))`, same shape, w an answer's ratio: 1 at w = 1, most at w = k / lambda."""
    bounded = log_ratio.clamp(LOWEST, HIGHEST)
    return torch.exp(decay + power * bounded - decay * bounded.exp())


@dataclass(frozen=True)
class GammaWeighted(Objective):
    """Minimises -sg[phi(w_i)] A_i log pi, w_i the product of an answer's ratios, with `gamma_weight` phi.

    Attributes:
        power, decay: k and lambda where A >= 0. power_below, decay_below: where A < 0.
        aggregate, horizon: see `hocket.objectives.aggregate`; `horizon` is the L of `constant-length`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    power: float = 2.0
    decay: float = 3.0
    power_below: float = 3.0
    decay_below: float = 2.0
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.TRAJECTORY
    # A decision of advantage 0 still enters its answer's ratio.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if min(self.power, self.decay, self.power_below, self.decay_below) <= 0:
            raise ValueError("power, decay, power_below and decay_below must be positive")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        own = log_ratios(now, batch).detach().clamp(-HIGHEST, HIGHEST)
        counted = torch.where(seen.weight != 0, own, torch.zeros_like(own))
        whole = segment_sum(counted, seen.trajectory, batch.trajectories)[seen.trajectory]
        rising = advantage >= 0
        power = torch.full_like(advantage, self.power_below).masked_fill(rising, self.power)
        decay = torch.full_like(advantage, self.decay_below).masked_fill(rising, self.decay)
        weight = gamma_weight(whole, power, decay)
        value = -weight * advantage * now.logp[seen.decision]
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), self.couples)


VESPO = GRPO.but(
    name="vespo",
    title="Variational sequence-level soft policy optimisation",
    source="Shen et al., arXiv:2602.10693; TRL 1.16, whose constants these are",
    formula="L = -1/sum_i n_i sum_i sg[phi(w_i)] A_i sum_t log pi_it,  phi(w) = w^k exp(lambda (1 - w)),  "
    "w_i = prod_t pi_it / pi_old_it,  (k, lambda) = (2, 3) if A_i >= 0 else (3, 2)",
    conventions={
        **GRPO.conventions,
        "clipping side": "none; the weight fades on both sides, log w is cut to [log 1e-8, 20]",
        "ratio": "of whole answers, the product over their decisions that count",
        "detached": GRPO.conventions["detached"] + "; so is the weight",
        "aggregation": "mean over all decisions of the batch",
        "updates per batch": "4 mini-batches, chosen here; with one every weight is 1 and it is GRPO",
    },
    objective=GammaWeighted(),
    **{"update.minibatches": 4},
)

"""prime-rl's `ipo` loss: a band of probabilities in place of a clip of ratios (ipo_loss_fn, prime-rl of August 2026).

As `divergence-ppo`, but symmetric: a token whose own probability has moved by more than the band, in whichever
direction, gives no policy gradient (`ProbabilityBand`). The squared log-ratio holds all tokens near where they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.credit.nonzero_credit import CreditedOnly
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.ratios import recorded, saturated, saturation
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class ProbabilityBand(Objective):
    """Minimises -M r A, r = pi / pi_behaviour: M is 0 where |pi - pi_behaviour| of the token is above `band`.

    Masked decisions stay in the denominators.

    Attributes:
        band: the most that a probability may move.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    band: float = 0.1
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.band < 0:
            raise ValueError(f"band must be at least 0, not {self.band}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        logp, old = now.logp[occurrences.decision], recorded(batch, "behaviour").to(dtype)[occurrences.decision]
        masked = (logp.detach().exp() - old.exp()).abs() > self.band
        value = -saturated(logp - old).exp() * occurrences.advantage.detach().to(dtype)
        active = (occurrences.weight != 0) & (occurrences.advantage != 0)
        metrics = {"ratio/clipped": share(masked, active), "ratio/saturated": saturation(logp - old, active)}
        weight = weights(batch, self.aggregate, self.horizon, dtype=dtype)
        return Terms(torch.where(masked, torch.zeros_like(value), value), weight, metrics=metrics)


PRIME_IPO = GRPO.but(
    name="prime-ipo",
    title="A symmetric trust region in probabilities",
    source="prime-rl, ipo_loss_fn",
    formula="L = 1/T sum_it [-M_it r_it A_i + 0.001 (log r_it)^2],  M = 0 where |p - q| > 0.1,  A_i = R_i - mean_g R,  "
    "T the tokens with an advantage",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "clipping side": "both: 0.1 in probability, whatever the advantage's sign",
        "old policy": "the one that sampled, in ratio and mask",
        "aggregation": "mean over the decisions that have an advantage, masked ones counted",
        "KL": "0.001 (log r)^2 to the policy that sampled",
        "updates per batch": "4 mini-batches, chosen here; with one nothing has moved, and nothing is masked",
    },
    correction=CreditedOnly(),
    objective=ProbabilityBand(),
    regularisers=(LogRatioPenalty(coefficient=1e-3, level="decision"),),
    **{"credit.scale": None, "update.minibatches": 4},
)

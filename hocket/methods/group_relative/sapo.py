"""SAPO: GRPO whose clip is a soft gate (Gao et al., Soft Adaptive Policy Optimization, arXiv:2511.20347).

Instead of cutting a token's gradient off outside a band, a sigmoid of the ratio lets it fade; it fades faster for
negative advantages, whose gradients raise many improbable tokens at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def soft_gate(ratio: Tensor, temperature: Tensor) -> Tensor:
    """f(r) = 4/tau sigmoid(tau (r - 1)), all `[E]`: slope 1 at r = 1, and 4 p (1 - p) elsewhere."""
    return 4 / temperature * torch.sigmoid(temperature * (ratio - 1))


@dataclass(frozen=True)
class SoftGate(Objective):
    """Minimises -f(r) A with `soft_gate` f, of temperature `positive` where A > 0 and `negative` elsewhere.

    Attributes:
        aggregate, horizon: see `hocket.objectives.aggregate`; `horizon` is the L of `constant-length`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    positive: float = 1.0
    negative: float = 1.05
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if min(self.positive, self.negative) <= 0:
            raise ValueError(f"temperatures must be positive, not {self.positive} and {self.negative}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage, log_ratio = seen.advantage.detach().to(dtype), log_ratios(now, batch)
        temperature = torch.full_like(advantage, self.negative).masked_fill(advantage > 0, self.positive)
        value = -soft_gate(saturated(log_ratio).exp(), temperature) * advantage
        metrics = {"ratio/saturated": saturation(log_ratio, (seen.weight != 0) & (seen.advantage != 0))}
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), metrics=metrics)


SAPO = GRPO.but(
    name="sapo",
    title="Soft Adaptive Policy Optimisation",
    source="Gao et al., arXiv:2511.20347; TRL 1.16 and verl 0.9",
    formula="L = -1/N sum_i 1/n_i sum_t f(r_it) A_i,  f(r) = 4/tau sigmoid(tau (r - 1)),  tau = 1 if A_i > 0 else 1.05",
    conventions={
        **GRPO.conventions,
        "clipping side": "none: the gate fades on both sides, by objective.positive and objective.negative",
        "ratio": "of single decisions",
        "updates per batch": "4 mini-batches, chosen here; with one the gate is fully open and it is GRPO",
    },
    objective=SoftGate(),
    **{"update.minibatches": 4},
)

"""DPPO: PPO's trust region in probabilities instead of ratios (Qi et al., arXiv:2602.04879).

A clip of ratios binds improbable tokens, whose ratio doubles at a touch, and lets probable ones move far. Here a token
loses its gradient when its own probability has moved too far in the direction that its advantage asks for
(`DivergenceMask`): the total variation, or the KL, of the two-way split into this token and all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import recorded, saturated, saturation
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

Divergence = Literal["tv", "kl"]


def moved(logp: Tensor, old: Tensor, divergence: Divergence) -> Tensor:
    """How far a token's probability p has moved from q, signed as p - q, same shape: `p - q`, or the KL of the split.

    That is `q log(q/p) + (1 - q) log((1 - q)/(1 - p))`, with 1e-8 added to the last numerator and denominator.
    """
    now, before = logp.exp(), old.exp()
    if divergence == "tv":
        return now - before
    others = (1 - before) * ((1 - before + 1e-8) / (1 - now + 1e-8)).log()
    return torch.sign(now - before) * (before * (old - logp) + others)


@dataclass(frozen=True)
class DivergenceMask(Objective):
    """Minimises -M r A, r = pi / pi_behaviour: M is 0 where `moved` is above `high` and A > 0, below -`low` and A < 0.

    Masked decisions stay in the denominators.

    Attributes:
        low, high: the most that a probability may fall and rise; with `kl`, in nats.
        divergence: `tv`, of probabilities themselves; `kl`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    divergence: Divergence = "tv"
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.divergence not in get_args(Divergence):
            raise ValueError(f"divergence is {self.divergence!r}; choose from {', '.join(get_args(Divergence))}")
        if min(self.low, self.high) < 0:
            raise ValueError(f"low and high must be at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        logp, old = now.logp[seen.decision], recorded(batch, "behaviour").to(dtype)[seen.decision]
        advantage = seen.advantage.detach().to(dtype)
        far = moved(logp.detach(), old, self.divergence)
        masked = ((advantage > 0) & (far > self.high)) | ((advantage < 0) & (far < -self.low))
        value = -saturated(logp - old).exp() * advantage
        active = (seen.weight != 0) & (seen.advantage != 0)
        metrics = {"ratio/clipped": share(masked, active), "ratio/saturated": saturation(logp - old, active)}
        weight = weights(batch, self.aggregate, self.horizon, dtype=dtype)
        return Terms(torch.where(masked, torch.zeros_like(value), value), weight, metrics=metrics)


DIVERGENCE_PPO = GRPO.but(
    name="divergence-ppo",
    title="Divergence Proximal Policy Optimisation, total variation",
    source="Qi et al., Rethinking the Trust Region in LLM Reinforcement Learning, arXiv:2602.04879; prime-rl, whose "
    "thresholds these are",
    formula="L = -1/sum_i n_i sum_it M_it r_it A_i,  M = 0 where p - q > 0.2 and A_i > 0, or p - q < -0.2 and A_i < 0",
    conventions={
        **GRPO.conventions,
        "clipping side": "the one that the advantage asks for, 0.2 each in probability; verl's example has 0.15",
        "old policy": "the one that sampled, in ratio and mask",
        "aggregation": "mean over all decisions of the batch, masked ones counted",
        "ratio": "not truncated; verl cuts it at 20 and keeps the gradient",
        "KL": "none; prime-rl adds 1e-3 (log r)^2",
        "updates per batch": "4 mini-batches, chosen here; with one nothing is masked. Whether a probability moves so "
        "far within a batch depends on the learning rate: at update.lr = 0.01, not at the default one",
    },
    objective=DivergenceMask(),
    **{"update.minibatches": 4},
)


DIVERGENCE_PPO_KL = DIVERGENCE_PPO.but(
    name="divergence-ppo-kl",
    title="Divergence Proximal Policy Optimisation, KL",
    formula="as divergence-ppo, p - q in its place the KL of (q, 1 - q) from (p, 1 - p), at most 0.05",
    conventions={
        **DIVERGENCE_PPO.conventions,
        "clipping side": "the one that the advantage asks for, 0.05 nats (verl's example)",
    },
    **{"objective.divergence": "kl", "objective.low": 0.05, "objective.high": 0.05},
)

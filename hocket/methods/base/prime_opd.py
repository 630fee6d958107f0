"""prime-rl's on-policy distillation (`ref_kl_loss_fn`): the present policy's log-ratio to the teacher as the signal.

`on-policy-distillation` measures a token by the policy that sampled it, once. Here the teacher's log-ratio is that of
the policy as it is now, without a gradient of its own, so it shrinks while the policy learns from older samples. Tokens
that have become far less likely are left out, and a penalty holds the policy near the one that sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.credit.reinforce import Uniform
from hocket.methods.base.distillation import ON_POLICY_DISTILLATION
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.ratios import anchor, log_ratios, recorded, saturated
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class PresentLogRatio(Objective):
    """Minimises `-r_t sg[log q(a_t) - log p(a_t)]`, the sampled reverse KL to the reference q, with `r_t = p / p_old`.

    Attributes:
        coefficient: of the whole.
        fallen: tokens whose probability has fallen by more than this add nothing; None leaves none out.
        metrics: `teacher/dropped`, their share; `teacher/log_ratio`, log q - log p.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 1.0
    fallen: float | None = 0.2
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR, Column.REFERENCE})
    idle_without_advantage: ClassVar[bool] = False
    learns_from_teacher: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.coefficient < 0 or (self.fallen is not None and not 0 <= self.fallen <= 1):
            raise ValueError(
                f"coefficient must be at least 0 and fallen in [0, 1], not {self.coefficient} and {self.fallen}"
            )

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        decision, counted = batch.occurrences.decision, batch.occurrences.weight != 0
        logp = now.logp[decision].detach()
        gap = recorded(batch, "reference")[decision].to(logp.dtype) - logp
        loss = -self.coefficient * saturated(log_ratios(now, batch)).exp() * gap
        dropped = counted & False
        if self.fallen is not None:
            dropped = counted & (logp.exp() - anchor(batch)[decision].to(logp.dtype).exp() < -self.fallen)
        metrics = {"teacher/dropped": share(dropped, counted), "teacher/log_ratio": gap[counted].mean()}
        return Terms(loss * ~dropped, weights(batch, self.aggregate, self.horizon, dtype=loss.dtype), metrics=metrics)


PRIME_OPD = ON_POLICY_DISTILLATION.but(
    name="prime-opd",
    title="prime-rl's on-policy distillation",
    source="Prime Intellect, prime-rl, ref_kl_loss_fn (algorithm opd)",
    axes=("objective",),
    formula="L = 1/sum_i n_i sum_i sum_t [-r_it sg(log q(a_it) - log p(a_it)) 1{p_old - p <= 0.2} + 1e-3 (log r_it)^2]",
    conventions={
        **ON_POLICY_DISTILLATION.conventions,
        "aggregation": "mean over all decisions of the batch, those left out included",
        "discount": "none",
        "clipping side": "tokens whose probability has fallen by more than 0.2 (objective.fallen)",
        "penalty": "1e-3 times the squared log-ratio to the policy that sampled",
    },
    credit=Uniform(),
    objective=PresentLogRatio(),
    regularisers=(LogRatioPenalty(coefficient=1e-3, level="decision"),),
)

"""The policy gradient without importance ratios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import HORIZON, Aggregate, check, weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def policy_gradient(logp: Tensor, advantage: Tensor) -> Tensor:
    """x = -A log pi(a), whose gradient is REINFORCE's (Williams 1992). All `[E]`; `advantage` is constant."""
    return -advantage.detach() * logp


@dataclass(frozen=True)
class PolicyGradient(Objective):
    """Minimises -A log pi. It is correct only at the behaviour policy, that is for one update per batch.

    With `sequence-sum` and return advantages the gradient is the policy gradient, unbiased.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    aggregate: Aggregate = "sequence-sum"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True
    on_policy_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        value = policy_gradient(now.logp[occurrences.decision], occurrences.advantage.to(dtype))
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype))

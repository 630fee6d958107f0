"""Even use of experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import mean, weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class LoadBalance(Objective):
    """Adds coefficient * E sum_e f_e P_e, the auxiliary loss of E experts (Fedus et al. 2021, arXiv 2101.03961, eq. 4).

    f_e is the share of choices that fall on expert e, P_e its mean probability; the product is 1 when experts are used
    evenly. It is measured in each forward pass of the learner, over all tokens and layers of it.
    """

    coefficient: float = 0.001

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.BALANCE})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        balance = now.get(Quantity.BALANCE)[occurrences.decision]
        weight = weights(batch, "token-mean", dtype=balance.dtype)
        return Terms(self.coefficient * balance, weight, metrics={"balance": mean(balance, occurrences.weight != 0)})

"""Regression of the value function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.errors import HocketError
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def value_loss(value: Tensor, target: Tensor, old: Tensor | None = None, clip: float | None = None) -> Tensor:
    """x = (V - y)^2, all `[E]`; with `clip` = c, max of that and (old + clip(V - old, -c, c) - y)^2.

    The clipped form is that of PPO's reference code (Schulman et al. 2017; Huang et al. 2022, detail 9).
    """
    error = (value - target).square()
    if clip is None or old is None:
        return error
    return torch.maximum(error, (old + (value - old).clamp(-clip, clip) - target).square())


@dataclass(frozen=True)
class ValueLoss(Objective):
    """Minimises coefficient (V - target)^2, with the targets of credit (`occurrences.target`).

    Attributes:
        coefficient: 0.5 is PPO's c_1 over a plain square, equal to a coefficient of 1 over half the square.
        clip: the largest change of a value, against the recorded one, that is rewarded; None for no clip.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 0.5
    clip: float | None = None
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.VALUE})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.coefficient < 0 or (self.clip is not None and self.clip <= 0):
            raise ValueError(
                f"coefficient must be at least 0 and clip None or positive, not {self.coefficient} and {self.clip}"
            )

    @property
    def reads(self) -> frozenset[Column]:
        return frozenset() if self.clip is None else frozenset({Column.VALUE})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        value = now.get(Quantity.VALUE)[occurrences.decision]
        if occurrences.target is None:
            raise HocketError("the value loss needs targets, but credit gave none; use hocket.credit.GAE")
        target = occurrences.target.detach().to(value.dtype)
        old = self._old(batch, value)
        term = self.coefficient * value_loss(value, target, old, self.clip)
        counted = occurrences.weight != 0
        metrics = {"value/explained": _explained(value, target, counted)}
        if old is not None and self.clip is not None:
            metrics["value/clipped"] = share((value - old).abs() > self.clip, counted)
        return Terms(term, weights(batch, self.aggregate, self.horizon, dtype=value.dtype), metrics=metrics)

    def _old(self, batch: Batch, value: Tensor) -> Tensor | None:
        if self.clip is None:
            return None
        if batch.value is None:
            raise HocketError("value clipping reads recorded values, but the batch has none; set clip to null")
        return batch.value[batch.occurrences.decision].to(value.dtype)


def _explained(value: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    """1 - Var(target - V) / Var(target): 1 is perfect, 0 no better than a constant; 0 for constant targets."""
    if int(counted.sum()) < 2:
        return torch.zeros((), dtype=torch.float64)
    value, target = value.detach()[counted].double(), target[counted].double()
    spread = target.var()
    return torch.where(spread > 0, 1 - (target - value).var() / spread.clamp(min=1e-30), torch.zeros_like(spread))

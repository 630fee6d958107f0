"""Regression of a value in [-1, 1] through its inverse hyperbolic tangent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss

from hocket.errors import HocketError
from hocket.objectives.aggregate import mean, weights
from hocket.stages import Objective
from hocket.types import Batch, Evaluation, Level, Quantity, Terms

Fit = Literal["squared", "huber", "cross-entropy"]


def fit_loss(output: Tensor, target: Tensor, fit: Fit, bound: float, huber: float) -> Tensor:
    """What an output z costs, whose value is tanh(z), for targets y in [-1, 1]; same shape.

    With `t = atanh(clip(y, -bound, bound))`: `squared` is (z - t)^2; `huber` is (z - t)^2 / (2 huber) within `huber`
    of t and |z - t| - huber / 2 beyond; `cross-entropy` is that of the probability (1 + y) / 2 under sigmoid(2 z) =
    (1 + tanh z) / 2.
    """
    if fit == "cross-entropy":
        return binary_cross_entropy_with_logits(2 * output, (1 + target) / 2, reduction="none")
    aim = torch.atanh(target.clamp(-bound, bound))
    if fit == "huber":
        return smooth_l1_loss(output, aim, beta=huber, reduction="none")
    return (output - aim).square()


@dataclass(frozen=True)
class MessageValueLoss(Objective):
    """Fits the policy's value output z, at decisions with a target y in [-1, 1], so that tanh(z) is y.

    MASPRM (arXiv 2510.24803, and the authors' code). Mean over the decisions that count.

    Attributes:
        fit: `squared`, `huber` or `cross-entropy`; see `fit_loss`. The authors' cross-entropy takes atanh(y) for a
            probability, which is none; here it is (1 + y) / 2.
        bound: targets are clipped to [-bound, bound] before atanh. huber: where `huber` becomes linear.
    """

    fit: Fit = "squared"
    bound: float = 0.95
    huber: float = 0.1

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.VALUE})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.fit not in get_args(Fit):
            raise ValueError(f"fit is {self.fit!r}; choose from {', '.join(get_args(Fit))}")
        if not 0 < self.bound < 1 or self.huber <= 0:
            raise ValueError(f"bound must lie in (0, 1) and huber be positive, not {self.bound} and {self.huber}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        output = now.get(Quantity.VALUE)[seen.decision]
        if seen.target is None:
            raise HocketError("the value loss needs targets, but credit gave none; use hocket.credit.MessageValues")
        target = seen.target.detach().to(output.dtype)
        loss = fit_loss(output, target, self.fit, self.bound, self.huber)
        metrics = {"value/error": mean((output.tanh() - target).abs(), seen.weight != 0)}
        return Terms(loss, weights(batch, "token-mean", dtype=output.dtype), metrics=metrics)

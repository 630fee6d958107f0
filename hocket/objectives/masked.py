"""The policy gradient with a mask in the place of a ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
from hocket.stages import Objective
from hocket.types import Batch, Column, Evaluation, Level, Quantity, Terms

Sides = Literal["none", "one", "two"]


def within(ratio: Tensor, advantage: Tensor, low: float, high: float, sides: Sides) -> Tensor:
    """Which occurrences keep their gradient, `[E]` bool.

    `one`: r <= 1 + high where A >= 0, r >= 1 - low where A <= 0 (PPO's side); `two`: 1 - low <= r <= 1 + high;
    `none`: all.
    """
    if sides == "none":
        return torch.ones_like(ratio, dtype=torch.bool)
    below, above = ratio <= 1 + high, ratio >= 1 - low
    if sides == "two":
        return below & above
    return (below & (advantage >= 0)) | (above & (advantage <= 0))


@dataclass(frozen=True)
class MaskedPolicyGradient(Objective):
    """Minimises -A log pi at the decisions whose ratio lies within bounds: REC (arXiv 2509.24203).

    The clip only says where a gradient remains; the ratio itself is left out. With `weighted` it is put back,
    -sg[r] A log pi, and at one side the gradient is that of PPO's clipped surrogate. With `sides="none"` it is
    REINFORCE, whoever sampled.

    Attributes:
        low, high: the ratio's bounds are 1 - low and 1 + high. sides: see `within`.
        weighted: multiply by the detached ratio.
    """

    low: float = 0.2
    high: float = 0.2
    sides: Sides = "one"
    weighted: bool = False
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.sides not in get_args(Sides):
            raise ValueError(f"sides is {self.sides!r}; choose from {', '.join(get_args(Sides))}")
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        log_ratio = log_ratios(now, batch).detach()
        ratio = saturated(log_ratio).exp()
        kept = within(ratio, advantage, self.low, self.high, self.sides)
        factor = kept * (ratio if self.weighted else torch.ones_like(ratio))
        active = (seen.weight != 0) & (seen.advantage != 0)
        metrics = {"ratio/clipped": share(~kept, active), "ratio/saturated": saturation(log_ratio, active)}
        value = -factor * advantage * now.logp[seen.decision]
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), metrics=metrics)

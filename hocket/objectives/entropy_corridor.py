"""A price for leaving the entropy that the policy usually had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.method_columns import USUAL_ENTROPY
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.schedules import Setting, bounds, value_at
from hocket.segments import segment_sum
from hocket.signals import turn_visits
from hocket.stages import Objective
from hocket.types import Batch, Evaluation, Level, Quantity, Terms


def corridor_distance(entropy: Tensor, usual: Tensor, low: float, high: float) -> Tensor:
    """How far `entropy` is outside of [low usual, high usual], `[K]`; 0 inside, and where `usual` is NaN."""
    outside = torch.relu(low * usual - entropy) + torch.relu(entropy - high * usual)
    return torch.where(usual.isnan(), torch.zeros_like(outside), outside)


@dataclass(frozen=True)
class EntropyCorridor(Objective):
    """Adds `coefficient * weight * P`, P the distance of a turn's entropy from a band around its usual one.

    EPO (arXiv 2509.22576): with Hbar_t the mean entropy at turn t in earlier steps, as
    `hocket.rewards.EntropyHistory` keeps it, P = 0 while `low Hbar_t < H < high Hbar_t`. Outside, the paper's P is a
    constant, which has no gradient; here it is the distance to the band, whose gradient on H is -1 below and 1 above.
    Beside an `EntropyBonus` of coefficient lambda it makes the paper's `-lambda (H - beta P)`, `weight` being beta.

    Attributes:
        low, high: the band, as multiples of the usual entropy. coefficient: price per nat outside.
        weight: beta, a number or how it changes over the run; weak early and strong late in the paper.
        form: `distance`, or the paper's `constant` 1 outside the band.
        grain: H is the mean over a turn's counted decisions, or each decision's own.
    """

    coefficient: float = 0.1
    low: float = 0.8
    high: float = 1.2
    weight: Setting = 1.0
    form: Literal["distance", "constant"] = "distance"
    grain: Literal["turn", "decision"] = "turn"
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ENTROPY})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if not 0 <= self.low <= 1 <= self.high:
            raise ValueError(f"the band must hold 1: low in [0, 1] and high at least 1, not {self.low} and {self.high}")
        if self.coefficient < 0 or bounds(self.weight)[0] < 0:
            raise ValueError("coefficient and weight must be at least 0")
        if self.form not in ("distance", "constant"):
            raise ValueError(f"form must be distance or constant, not {self.form!r}")
        if self.grain not in ("turn", "decision"):
            raise ValueError(f"grain must be turn or decision, not {self.grain!r}")

    @property
    def couples(self) -> Level:
        return Level.TRAJECTORY if self.grain == "turn" else Level.DECISION

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        entropy = now.get(Quantity.ENTROPY)[seen.decision]
        if self.grain == "turn":
            entropy = _of_turns(entropy, batch)
        usual = _usual(batch).to(entropy.dtype)
        outside = corridor_distance(entropy, usual, self.low, self.high)
        metrics = {"entropy/outside": share(outside.detach() > 0, seen.weight != 0)}
        price = outside if self.form == "distance" else (outside.detach() > 0).to(outside.dtype)
        factor = self.coefficient * value_at(self.weight, batch.progress)
        weight = weights(batch, self.aggregate, self.horizon, dtype=entropy.dtype)
        return Terms(factor * price, weight, self.couples, metrics)


def _of_turns(entropy: Tensor, batch: Batch) -> Tensor:
    """The mean entropy of each occurrence's turn, over what counts of it, `[E]`."""
    visit, starts = turn_visits(batch)
    counted = (batch.occurrences.weight != 0).to(entropy.dtype)
    size = int(starts.sum())
    total = segment_sum(entropy * counted, visit, size)
    return (total / segment_sum(counted, visit, size).clamp(min=1))[visit]


def _usual(batch: Batch) -> Tensor:
    """The usual entropy at each occurrence's turn, `[E]` float64; NaN where there is none."""
    column = USUAL_ENTROPY.read(batch, "EntropyCorridor")
    seen = batch.occurrences
    index = batch.index[batch.turn[seen.decision]].tolist()
    rows = [column[number] or [] for number in seen.trajectory.tolist()]
    found = [
        row[turn] if turn < len(row) and row[turn] is not None else torch.nan
        for row, turn in zip(rows, index, strict=True)
    ]
    return torch.tensor(found, dtype=torch.float64)

"""Advantages shaped by how undecided the policy was. Entropies are recorded constants, without a gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.credit.refined import Refined, mean_by_trajectory
from hocket.segments import segment_mean
from hocket.types import Batch, Column, GroupBy, Occurrences


def entropy_factor(entropy: Tensor, average: Tensor, low: float, high: float) -> Tensor:
    """`clip(average / H, low, high)`, same shape; 1 where both are 0."""
    ratio = torch.where(entropy > 0, average / entropy.clamp(min=1e-300), torch.full_like(entropy, torch.inf))
    return torch.where((entropy <= 0) & (average <= 0), 1.0, ratio).clamp(low, high)


@dataclass(frozen=True)
class EntropyScaled(Refined):
    """`A_i <- A_i mean(H) / H_i`, H_i the mean entropy of trajectory i's decisions: EDGE-GRPO (arXiv 2507.21848).

    A confident sample's credit grows, an undecided one's shrinks, and no sign changes; 0 stays 0. The public code takes
    the mean of H over the whole batch, as here, and leaves the factor unbounded; `low` and `high` are our guard against
    an entropy near 0 (its code holds the same two numbers, commented out).

    Attributes:
        over: where the mean of H is taken: the `batch` or the `group` of the scenario.
        low, high: bounds of the factor.
    """

    over: Literal["batch", "group"] = "batch"
    low: float = 0.1
    high: float = 10.0

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over not in ("batch", "group"):
            raise ValueError(f"over must be 'batch' or 'group', not {self.over!r}")
        if not 0 < self.low <= 1 <= self.high:
            raise ValueError(f"low and high must satisfy 0 < low <= 1 <= high, not {self.low} and {self.high}")

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        entropy, counted = mean_by_trajectory(self.entropy(batch), batch)
        groups = (GroupBy("scenario") if self.over == "group" else GroupBy())(batch)
        average = segment_mean(entropy[counted], groups.index[counted], groups.size)[groups.index]
        factor = entropy_factor(entropy, average, self.low, self.high)
        return replace(seen, advantage=seen.advantage * factor[seen.trajectory])


def entropy_lift(advantage: Tensor, entropy: Tensor, gain: float, share: float) -> Tensor:
    """`A + min(gain H, share |A|)`, `[E]`: below share 1 it has the sign of A, and is 0 where A is."""
    return advantage + torch.minimum(gain * entropy, share * advantage.abs())


@dataclass(frozen=True)
class EntropyLifted(Refined):
    """`A_t <- A_t + min(gain H_t, share |A_t|)` on reasoning decisions (arXiv 2508.05118, EGPO in later versions).

    The paper's abstract says that credit is raised by a bounded bonus that grows with the entropy of the reasoning, the
    outcome setting the direction. The form is our choice: a bound that is a share of |A| keeps the sign and leaves
    groups without signal at 0, which a constant bound would not.

    Attributes:
        gain: of the bonus, per nat. share: bound of the bonus as a share of |A|, in [0, 1).
        segment: decisions with this segment number are reasoning (see `hocket.rewards.SegmentsByText`); None takes all.
    """

    gain: float = 0.4
    share: float = 0.5
    segment: int | None = None

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gain < 0 or not 0 <= self.share < 1:
            raise ValueError(f"gain must be at least 0 and share in [0, 1), not {self.gain} and {self.share}")

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        lifted = entropy_lift(seen.advantage.double(), self.entropy(batch), self.gain, self.share)
        if self.segment is not None:
            reasoning = batch.segment[seen.decision] == self.segment
            lifted = torch.where(reasoning, lifted, seen.advantage.double())
        return replace(seen, advantage=lifted)

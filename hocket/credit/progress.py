"""Credit for progress: how much nearer to a right answer each block of a thought has brought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hocket.core.method_columns import FORCED_VALUES
from hocket.credit.group import GroupRelative
from hocket.stages import Credit
from hocket.types import Batch, Occurrences


def progress(values: Tensor) -> Tensor:
    """`b_j = J_j - J_{j-1}` of values `J_0, .., J_k` `[k + 1]`: `[k]`. They telescope to `J_k - J_0`."""
    return values[1:] - values[:-1]


def progress_to_go(values: Tensor) -> Tensor:
    """`sum_{i >= j} b_i = J_k - J_{j-1}`, `[k]`: the progress still to come when block j begins."""
    return values[-1] - values[:-1]


@dataclass(frozen=True)
class ProgressBonus(Credit):
    """The advantages of `base`, and `alpha b_j` at every decision of block j: MRT (arXiv 2503.07572).

    Reads column `forced_values`, the `J_0, .., J_k` of each trajectory that `hocket.rollout.ForcedAnswers` writes; a
    decision's block is its segment, the last block taking what lies beyond. A trajectory without values has no bonus.

    With form `to-go` a block is credited with all progress from it on. Where J_k is the outcome R that is
    `R - J_{j-1}`, the forced-answer value of the prefix being the baseline; without `base` and with alpha 1 it is the
    authors' termination-reward advantage.

    Attributes:
        base: credit for the outcome; None for none. alpha: weight of the bonus.
        form: `own`, a block's own progress, as in the paper; or `to-go`.
    """

    base: Credit | None = GroupRelative()
    alpha: float = 1.0
    form: Literal["own", "to-go"] = "own"

    def __post_init__(self) -> None:
        if self.form not in ("own", "to-go"):
            raise ValueError(f"form must be own or to-go, not {self.form!r}")
        if self.base is not None and self.base.pairs:
            raise ValueError("base yields pairs; set it to a credit that gives advantages")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences if self.base is None else self.base(batch)
        before = torch.zeros(len(seen), dtype=torch.float64) if self.base is None else seen.advantage
        return replace(seen, advantage=before + self.alpha * self.bonus(batch))

    def bonus(self, batch: Batch) -> Tensor:
        """Each occurrence's progress, `[E]` float64; 0 where its weight is 0."""
        seen = batch.occurrences
        known = FORCED_VALUES.rows(batch)
        gains = [self._gains(values) for values in known]
        starts = torch.tensor([0, *(len(one) for one in gains)]).cumsum(0)[:-1]
        count = torch.tensor([len(one) for one in gains])
        block = torch.minimum(batch.segment[seen.decision], count[seen.trajectory] - 1)
        found = torch.cat(gains)[starts[seen.trajectory] + block]
        return torch.where(seen.weight != 0, found, 0.0)

    def _gains(self, values: list[float] | None) -> Tensor:
        if values is None or len(values) < 2:
            return torch.zeros(1, dtype=torch.float64)
        known = torch.tensor(values, dtype=torch.float64)
        return progress_to_go(known) if self.form == "to-go" else progress(known)

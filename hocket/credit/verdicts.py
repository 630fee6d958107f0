"""Right or wrong, relative to how often a scenario is answered rightly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.segments import segment_mean
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.formulas import centred
from hocket.stages import Credit


@dataclass(frozen=True)
class Verdicts(Credit):
    """`A_i = o_i - q`, o_i in {0, 1} the verdict on trajectory i and q its group's mean verdict.

    So a positive advantage is 1 - q and a negative one -q: an objective can read both the verdict and the success rate
    off it (NFT, arXiv 2505.18116; DisCO, arXiv 2505.12366). Groups of one verdict, and groups of one, give 0.

    Attributes:
        by: what makes samples comparable.
        threshold: a return above it is right; None: above the mean of its group, which for rewards in {0, 1} is the
            same wherever a group holds both.
    """

    by: GroupBy = GroupBy("scenario")
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("verdicts are on trajectories: by may not name a column of turns")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario: one sample alone has nothing to be compared with."""
        return 2 if "scenario" in self.by.columns else 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        counted, value, groups = counted_trajectories(batch), returns(batch), self.by(batch)
        value, group = value[counted], groups.index[counted]
        if self.threshold is None:
            # Centring is exactly 0 in a constant group, so rounding makes no verdicts there.
            verdict = (centred(value, group, groups.size) > 0).double()
        else:
            verdict = (value > self.threshold).double()
        advantage = torch.zeros(batch.trajectories, dtype=torch.float64)
        advantage[counted] = verdict - segment_mean(verdict, group, groups.size)[group]
        return replace(batch.occurrences, advantage=advantage[batch.occurrences.trajectory])

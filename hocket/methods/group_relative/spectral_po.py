"""Spectral PO: GRPO that grades groups without a right answer by how far each got (Chen et al., arXiv:2505.11595).

`StepScores` replaces the rewards of such groups alone by a score of what stands before the first wrong step, from a
judge or from equations checked in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, LevelScores
from hocket.core.columns import TEXT
from hocket.core.segments import segment_count, segment_extreme
from hocket.core.signals import REWARD, returns
from hocket.methods.base.grpo import GRPO
from hocket.stages import Shaping

_EQUATION = re.compile(r"(-?\d{1,15}) *([-+*]) *(-?\d{1,15}) *= *(-?\d{1,30})", re.ASCII)


def right_share(text: str) -> float:
    """The length of what stands before the first wrong equation, over the whole length, in [0, 1].

    A scripted judge of worked sums: steps are equations `a + b = c` (or -, *) of integers. Without any step it is 0,
    with right ones only 1.
    """
    steps = list(_EQUATION.finditer(text))
    for step in steps:
        left, sign, right, claimed = int(step[1]), step[2], int(step[3]), int(step[4])
        value = left + right if sign == "+" else left - right if sign == "-" else left * right
        if value != claimed:
            return step.start() / len(text)
    return 1.0 if steps else 0.0


def step_score(share: Tensor, slope: float, threshold: float) -> Tensor:
    """`1 / (1 + exp(-slope (share - threshold)))`, same shape: strictly rising in share, inside (0, 1)."""
    return torch.sigmoid(slope * (share - threshold))


@dataclass(frozen=True)
class StepScores(Shaping):
    """In groups where nobody is right, the reward is how far each solution was: spectral PO (arXiv 2505.11595).

    `s = sigmoid(slope (RTS - threshold))`, RTS the share of a solution that stands before its first wrong step, as told
    by the score `name` (a judge's, of weight 0 so that it adds nothing elsewhere), else `right_share` of the text.
    Other groups keep their rewards to the last bit. Slope and threshold are our choice; the paper's are not known.

    Attributes:
        success: the return from which on a sample counts as right.
    """

    slope: float = 5.0
    threshold: float = 0.5
    success: float = 1.0
    name: str = "rts"

    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise ValueError(f"slope must be positive, not {self.slope}")

    def __call__(self, batch: Batch) -> Batch:
        seen = batch.occurrences
        used = segment_count(seen.trajectory[seen.weight != 0], batch.trajectories) > 0
        counted = torch.nonzero(used).flatten()
        groups = GroupBy("scenario")(batch)
        index = groups.index[counted]
        total = returns(batch)
        best = segment_extreme(total[counted], index, groups.size, largest=True)
        failed = torch.zeros(batch.trajectories, dtype=torch.bool)
        failed[counted] = (best < self.success)[index]
        if not failed.any():
            return batch
        reward = torch.where(failed, self._scores(batch, failed), self._own(batch))
        return batch.but(scores={**batch.scores, REWARD[Level.TRAJECTORY]: LevelScores(Level.TRAJECTORY, reward)})

    def _own(self, batch: Batch) -> Tensor:
        given = batch.scores.get(REWARD[Level.TRAJECTORY])
        return torch.zeros(batch.trajectories, dtype=torch.float64) if given is None else given.values

    def _scores(self, batch: Batch, failed: Tensor) -> Tensor:
        if self.name in batch.scores:
            share = torch.nan_to_num(batch.scores[self.name].values)
        else:
            texts = TEXT.read(batch, "StepScores")
            told = [
                right_share(text or "") if wanted else 0.0 for text, wanted in zip(texts, failed.tolist(), strict=True)
            ]
            share = torch.tensor(told, dtype=torch.float64)
        return step_score(share.double(), self.slope, self.threshold)


SPECTRAL_PO = GRPO.but(
    name="spectral-po",
    title="Spectral Policy Optimisation",
    source="Chen et al., Spectral Policy Optimization: Coloring your Incorrect Reasoning in GRPO, arXiv:2505.11595",
    catalogue_ids=("spectral-po",),
    axes=("reward", "credit"),
    formula="in groups without a right answer r_i = 1/(1 + exp(-beta (RTS_i - gamma)));  then GRPO",
    conventions={
        **GRPO.conventions,
        "RTS": "length before the first wrong step over the whole length",
        "judge": "a score named rts of weight 0, else equations of integers checked in the text",
        "constants": "shaping.0.slope beta = 5 and shaping.0.threshold gamma = 0.5: the paper's are not known",
        "other groups": "unchanged to the last bit",
    },
    shaping=(StepScores(slope=5.0, threshold=0.5),),
)

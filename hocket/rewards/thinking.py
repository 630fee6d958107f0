"""Whether to think first, as a decision that has its price."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hocket.core.columns import TEXT, InfoColumn
from hocket.markup import has_thought
from hocket.rewards.shaping import added
from hocket.segments import segment_count, segment_sum
from hocket.signals import returns
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy, Level

NEEDED = InfoColumn("needed", "How much the scenario needs thinking, in [0, 1]; None where nobody knows.")


def well_formed(text: str) -> bool:
    """Whether each `<think>` is closed before the next one opens, and nothing is closed that was not open."""
    return re.sub(r"<think>(?:(?!</?think>).)*</think>", "", text, flags=re.DOTALL).find("think>") < 0


@dataclass(frozen=True)
class ThinkingPenalties(Shaping):
    """`R = R_base - miss P_miss - over P_over - form P_fmt`: AdaCoT (arXiv 2505.11896).

    P_miss is due for not thinking where it is needed, P_over for thinking where it is not, P_fmt for broken tags. How
    much thinking is needed is the column `needed` in [0, 1] (a label, or a labeller's confidence; P_miss is then that
    number and P_over the rest). Where it is None the group's own samples tell: needed is 1 if less than half of those
    that did not think were right, 0 if more were, and neither is charged if all thought. The paper's sources seen
    name the penalties and their coefficients; their exact form is our choice.

    Attributes:
        miss, over, form: the coefficients. success: the return from which on a sample counts as right.
    """

    miss: float = 0.2
    over: float = 0.2
    form: float = 0.5
    success: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        texts = [text or "" for text in TEXT.read(batch, "ThinkingPenalties")]
        thought = torch.tensor([has_thought(text) for text in texts], dtype=torch.bool)
        broken = torch.tensor([not well_formed(text) for text in texts], dtype=torch.float64)
        told = NEEDED.rows(batch)
        needed = self._needed(batch, thought, told)
        known = ~needed.isnan()
        missed = torch.where(known & ~thought, needed, 0.0)
        excess = torch.where(known & thought, 1 - needed, 0.0)
        return added(batch, Level.TRAJECTORY, -self.miss * missed - self.over * excess - self.form * broken)

    def _needed(self, batch: Batch, thought: torch.Tensor, told: Sequence[float | None]) -> torch.Tensor:
        """How much each trajectory's scenario needs thinking, `[N]` in [0, 1], NaN where nobody knows."""
        labels = torch.tensor([torch.nan if one is None else float(one) for one in told], dtype=torch.float64)
        groups = GroupBy("scenario")(batch)
        seen = batch.occurrences
        counted = segment_count(seen.trajectory[seen.weight != 0], batch.trajectories) > 0
        straight = ~thought & counted
        tried = segment_count(groups.index[straight], groups.size)
        right = (returns(batch) >= self.success).double()
        rate = segment_sum(right[straight], groups.index[straight], groups.size) / tried
        judged = torch.where(rate == 0.5, torch.nan, (rate < 0.5).double())
        judged = torch.where(rate.isnan(), torch.nan, judged)
        return torch.where(labels.isnan(), judged[groups.index], labels)

"""open-rs: GRPO on a small budget with a reward that falls with length along a cosine (Dang and Ngo, arXiv:2503.16219).

`CosineLength` pays a right answer more the shorter it is and charges a wrong one less the longer it is, in place of the
plain verdict; a point for tags is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.signals import RIGHT, right
from hocket.methods.base.conventions import RIGHT_ANSWERS
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.members import with_return
from hocket.rewards.tags import TagFormat
from hocket.stages import Shaping


def cosine_reward(length: Tensor, limit: int, at_zero: Tensor | float, at_limit: Tensor | float) -> Tensor:
    """`b + (a - b) (1 + cos(pi min(l, L) / L)) / 2`, a at length 0 and b from L on; float64."""
    share = length.double().clamp(max=limit) / limit
    return at_limit + (torch.as_tensor(at_zero) - at_limit) * (1 + torch.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class CosineLength(Shaping):
    """The cosine length reward in place of the verdict: open-rs (arXiv 2503.16219), after Yeo et al. 2025.

    A right answer earns `right_short` at length 0, falling to `right_long` at `limit`; a wrong one rises from
    `wrong_short` to `wrong_long`. The published script counts characters and has no cap at `limit`; here decisions
    count, and the cap is ours. Its defaults for wrong answers are reversed, which pays them for being short: such
    values, and any by which some wrong answer beats a right one, are refused.

    Attributes:
        weight: of the reward. least: an answer is right when its return before is at least this.
    """

    lengths: ClassVar[tuple[str, ...]] = ("limit",)

    limit: int
    right_short: float = 1.0
    right_long: float = 0.5
    wrong_short: float = -1.0
    wrong_long: float = -0.5
    weight: float = 2.0
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")
        if self.right_short < self.right_long:
            raise ValueError(f"right_short = {self.right_short} is below right_long = {self.right_long}; swap them")
        if self.wrong_short > self.wrong_long:
            raise ValueError(
                f"wrong_short = {self.wrong_short} is above wrong_long = {self.wrong_long}, which pays wrong answers "
                "for being short; swap them"
            )
        if self.wrong_long >= self.right_long:
            raise ValueError(
                f"wrong_long = {self.wrong_long} lets a wrong answer beat a right one; set it below right_long = "
                f"{self.right_long}"
            )

    def __call__(self, batch: Batch) -> Batch:
        solved, length = right(batch, self.least), batch.lengths()
        paid = cosine_reward(length, self.limit, self.right_short, self.right_long)
        owed = cosine_reward(length, self.limit, self.wrong_short, self.wrong_long)
        return with_return(batch, self.weight * torch.where(solved, paid, owed))


OPEN_RS = GRPO.but(
    name="open-rs",
    title="Small-budget reasoning with a cosine length reward",
    source="Dang and Ngo, Reinforcement Learning for Reasoning in Small LLMs, arXiv:2503.16219",
    catalogue_ids=("open-rs",),
    axes=("analysis", "data", "reward"),
    formula="R_i = 2 (b + (a - b)(1 + cos(pi min(l_i, L)/L))/2) + tags_i,  (a, b) = (1, 0.5) if right else (-1, -0.5)",
    conventions={
        **GRPO.conventions,
        **RIGHT_ANSWERS,
        "length": f"decisions (the script counts characters), capped at shaping.0.limit = {HORIZON}",
        "reversed defaults": "the script's values for wrong answers are refused",
        "tags": "weight 1 for <think>..</think> and one <answer>..</answer>",
    },
    shaping=(CosineLength(limit=HORIZON, weight=2.0), TagFormat(weight=1.0)),
)

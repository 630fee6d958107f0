"""AVATAR: earlier samples by difficulty, and more credit at the beginning and the end of an answer (arXiv:2508.03100).

`ByDifficulty` brings back more earlier samples the fewer fresh ones succeed, chosen so that rewards vary, so that also
a group of equal rewards may have a contrast. `EndsWeighted` multiplies advantages by a weight that is largest where an
answer is planned and where it is concluded. Shown on text; sound and pictures come with their modality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.segments import segment_count, segment_mean
from hocket.core.signals import RIGHT
from hocket.credit.refinement import Refined
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.base.grpo import GRPO
from hocket.objectives.replay_surrogate import ReplayedSurrogate
from hocket.rollout.replay import WithReplays
from hocket.rollout.replay_store import Take, worth
from hocket.types import Trajectory


@dataclass(frozen=True)
class ByDifficulty(WithReplays):
    """`WithReplays` where the number that comes back depends on the share of fresh samples that succeed.

    AVATAR (arXiv 2508.03100) keeps its buffer in strata of difficulty; how many of each come back is chosen here.

    Attributes:
        earlier: where more than two thirds succeed. medium, hard: where at least one third do, and where fewer do.
    """

    earlier: int = 2
    medium: int = 2
    hard: int = 4
    take: Take = "spread"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.medium, self.hard) < 0:
            raise ValueError(f"medium and hard must be at least 0, not {self.medium} and {self.hard}")

    def wanted(self, fresh: Sequence[Trajectory]) -> int:
        share = sum(one.failure is None and worth(one) >= RIGHT for one in fresh) / len(fresh)
        return self.hard if share < 1 / 3 else self.medium if share <= 2 / 3 else self.earlier


def ends_weight(trajectory: Tensor, trajectories: int, height: float) -> Tensor:
    """`w_t = (1 + height u_t^2) / mean`, `u_t = 2 t/(L - 1) - 1` from -1 to 1 along each trajectory; `[E]` float64.

    `trajectory` `[E]` is contiguous, in time order. The mean over a trajectory is 1, and so is the weight of one alone.
    """
    length = segment_count(trajectory, trajectories)
    first = torch.cumsum(length, 0) - length
    step = torch.arange(len(trajectory)) - first[trajectory]
    place = 2 * step.double() / (length[trajectory] - 1).clamp(min=1) - 1
    raised = 1 + height * torch.where(length[trajectory] > 1, place.square(), 0.0)
    return raised / segment_mean(raised, trajectory, trajectories)[trajectory]


@dataclass(frozen=True)
class EndsWeighted(Refined):
    """Advantages times `ends_weight` along each trajectory's decisions: AVATAR's temporal advantage shaping.

    The abstract of arXiv 2508.03100 says that key phases get more; the U is recalled, and normalised to mean 1 here.
    """

    height: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height < 0:
            raise ValueError(f"height must be at least 0, not {self.height}")

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        if self.height == 0:
            return seen
        weight = ends_weight(seen.trajectory, batch.trajectories, self.height)
        return replace(seen, advantage=seen.advantage * weight)


AVATAR = GRPO.but(
    name="avatar",
    title="AVATAR: replay by difficulty and temporal advantage shaping",
    source="AVATAR: Reinforcement Learning to See, Hear, and Reason Over Video, arXiv:2508.03100",
    family="data-and-rollout",
    catalogue_ids=("avatar",),
    axes=("rollout", "credit"),
    formula="A_it = w_t (R_i - mean R)/(std R + eps), over fresh and replayed samples together;  "
    "w_t = (1 + lambda (2t/(L-1) - 1)^2) / mean;  r_it = pi/pi_stored for replayed ones",
    conventions={
        **GRPO.conventions,
        "what comes back": "4 earlier samples of a question that fewer than a third solve, else 2, of varied reward",
        "advantages": "fresh and replayed samples together",
        "temporal weight": "lambda = 1, over the decisions of a trajectory, mean 1; the U shape is recalled",
        "modality": "text here; the paper's is sound and video",
        "questions": "all of a finite task and 256 of an endless one (curriculum.pool) come again in random order",
    },
    task="sums",
    curriculum=Weighted(),
    rollout=ByDifficulty(),
    credit=EndsWeighted(of=GRPO.credit),
    objective=ReplayedSurrogate(),
)

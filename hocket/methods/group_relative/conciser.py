"""ConciseR: GRPO that rewards short answers only where the whole group is right (Song and Zheng, arXiv:2505.21178).

`conciser-1` clips higher and asks groups without signal again; `conciser`, the second stage, adds the length term
(`LengthOnceRight`) and does not divide by the deviation of groups that are all right (`DeviationUnlessAllRight`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.segments import segment_count, segment_extreme, segment_std
from hocket.core.signals import RIGHT, counted_trajectories, returns
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.conventions import LENGTH, RIGHT_ANSWERS
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.members import SCENARIO, with_return
from hocket.rollout.dynamic import DynamicSampling
from hocket.rollout.independent import Independent
from hocket.stages import Shaping


@dataclass(frozen=True)
class LengthOnceRight(Shaping):
    """Where all of a group's answers are right, a right answer earns `1 + weight (1 - l / limit)`.

    ConciseR's second stage (arXiv 2505.21178): correctness is never traded for length. The paper's code is not
    public; this form, what is left of the budget, is the catalogue's example. The other groups are left alone.

    Attributes:
        limit: the most decisions a response may have. weight: of the length term.
        always: adds the length term everywhere, to wrong answers too: the ablation.
        least: an answer is right when its return before is at least this.
    """

    lengths: ClassVar[tuple[str, ...]] = ("limit",)

    limit: int
    weight: float = 1.0
    always: bool = False
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")

    def __call__(self, batch: Batch) -> Batch:
        value, groups, among = returns(batch), SCENARIO(batch), counted_trajectories(batch)
        failed = segment_count(groups.index[among & (value < self.least)], groups.size) > 0
        open_to = torch.ones_like(failed) if self.always else ~failed
        term = self.weight * (1 - batch.lengths().double() / self.limit)
        return with_return(batch, torch.where(open_to[groups.index], value + term, value))


@dataclass(frozen=True)
class DeviationUnlessAllRight(Weight):
    """`1 / (std_g R + epsilon)` in groups with a wrong answer, 1 in groups without.

    For ConciseR (arXiv 2505.21178): in a group of right answers returns differ by their lengths alone, and division
    by the deviation would blow tiny differences up to full size. Set with `scale=None`.

    Attributes:
        least: a member is right when its return is at least this. ddof, epsilon: as in `GroupRelative`.
    """

    least: float = RIGHT
    ddof: int = 1
    epsilon: float = 1e-6

    def __call__(self, seen: Compared) -> Tensor:
        lowest = segment_extreme(seen.value, seen.group, seen.size, largest=False)
        divisor = segment_std(seen.value, seen.group, seen.size, ddof=self.ddof) + self.epsilon
        factor = torch.where((lowest < self.least) & (divisor > 0), 1 / divisor, torch.ones_like(divisor))
        return factor[seen.group]


CONCISER_1 = GRPO.but(
    name="conciser-1",
    title="ConciseR, first stage: GRPO++",
    source="Song and Zheng, Walk Before You Run, arXiv:2505.21178",
    formula="GRPO with clip(r, 1 - 0.2, 1 + 0.28), groups whose rewards are all equal asked again",
    conventions={
        **GRPO.conventions,
        "clipping side": "0.2 below, 0.28 above",
        "constant group": "discarded and asked again, at most 3 rounds",
        "entropy": "no bonus (the paper's first stage may add one)",
        "updates per batch": "4 mini-batches, verl's default, as the paper's settings are not public; with one "
        "nothing is clipped",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3),
    **{"objective.high": 0.28, "update.minibatches": 4},
)


CONCISER = CONCISER_1.but(
    name="conciser",
    title="ConciseR, second stage: length only once all are right",
    source=CONCISER_1.source,
    catalogue_ids=("conciser",),
    axes=("reward", "data", "objective"),
    formula="R_i = 1 + (1 - l_i/L) if all of the group are right, else the verdict;  "
    "A_i = (R_i - mean R)/(std R + eps), undivided where all are right",
    conventions={
        **CONCISER_1.conventions,
        **RIGHT_ANSWERS,
        **LENGTH,
        "constant group": "kept: groups of right answers are what this stage learns from; constant ones get 0",
        "length term": f"what is left of L = shaping.0.limit = {HORIZON}, our example; the paper's code is not public",
        "deviation": "not taken in groups of right answers, whose lengths it would blow up (credit.weigh)",
        "stages": "a plan: conciser-1 until accuracy is good, then conciser for fewer steps",
    },
    rollout=Independent(samples=8),
    shaping=(LengthOnceRight(limit=HORIZON),),
    **{"credit.scale": None, "credit.weigh": (DeviationUnlessAllRight(),)},
)

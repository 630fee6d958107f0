"""Multi-objective GRPO: several scores in a weighted sum, then normalised by group (arXiv:2503.21819).

The sum is `WeightedSum` of `hocket.rewards.combine`, the rest GRPO. The variant normalises each score in its group
before it adds them up (`NormalisedSum`), so that scales cancel and only weights trade scores off.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, LevelScores
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_extreme, segment_mean, segment_std
from hocket.core.signals import counted_trajectories
from hocket.methods.base.grpo import GRPO
from hocket.rewards.combine import WeightedSum, Weights, sources, summed
from hocket.stages import Combine


def standardised(values: Tensor, used: Tensor, group: Tensor, size: int, *, ddof: int, epsilon: float) -> Tensor:
    """`(x - mean_g x) / (std_g x + epsilon)` over the members `used` `[N]` bool, 0 for the others; `[N]`.

    Exactly 0 where the members of a group are equal.
    """
    result = torch.zeros_like(values)
    own, index = values[used], group[used]
    spread = segment_std(own, index, size, ddof=ddof)[index]
    differ = segment_extreme(own, index, size, largest=True) > segment_extreme(own, index, size, largest=False)
    centred = own - segment_mean(own, index, size)[index]
    divisor = spread + epsilon
    result[used] = torch.where(differ[index] & (divisor > 0), centred / divisor, torch.zeros_like(own))
    return result


@dataclass(frozen=True)
class NormalisedSum(Combine):
    """reward = sum_k w_k (r_k - mean_g r_k) / (std_g r_k + epsilon): each score normalised in its group, then summed.

    The scale of a score cancels, so only the weights trade them off; `WeightedSum` before a normalising credit sums
    first, and the score of the largest spread decides. Scores of turns and decisions are summed as they are.
    Trajectories of weight 0, and scores without an opinion, enter no statistic and get 0. Formula derived here from
    the two orders that multi-objective GRPO leaves open; the order itself is GDPO's (arXiv 2601.05242).
    """

    by: GroupBy = GroupBy("scenario")
    weights: Weights | None = None
    ddof: int = 1
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("scores of whole trajectories are normalised: by may not name a column of turns")

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        parts, groups, used = {}, self.by(batch), counted_trajectories(batch)
        for name, score in sources(batch).items():
            if score.level is Level.TRAJECTORY:
                known = used & ~score.values.isnan()
                values = torch.nan_to_num(score.values.double())
                values = standardised(values, known, groups.index, groups.size, ddof=self.ddof, epsilon=self.epsilon)
                score = LevelScores(Level.TRAJECTORY, values)
            parts[name] = score
        return summed(batch, parts, {**weights, **(self.weights or {})})


MULTI_OBJECTIVE_GRPO = GRPO.but(
    name="multi-objective-grpo",
    title="Multi-objective GRPO: weighted sum, then normalise",
    source="Optimizing Safe and Aligned Language Generation: A Multi-Objective GRPO Approach, arXiv:2503.21819",
    catalogue_ids=("multi-objective-grpo",),
    axes=("reward", "credit"),
    formula="R_i = sum_k w_k s_k(x, y_i),  A_i = (R_i - mean_g R)/(std_g R + eps)",
    conventions={
        **GRPO.conventions,
        "order": "sum, then normalise, as the paper; multi-objective-grpo-normalised has the other order",
        "weights": "those of the rewards (--reward FILE.py:F=WEIGHT), or combine.weights; the paper's are unknown",
        "reward model": "any rewards; hocket.rewards.judge fits heads to scored texts and reports their accuracy",
    },
    task="worked-sums?form=0.2&model=0.5",
    requires=(Requirement.SCORES,),
    combine=WeightedSum(),
)


MULTI_OBJECTIVE_GRPO_NORMALISED = MULTI_OBJECTIVE_GRPO.but(
    name="multi-objective-grpo-normalised",
    title="Multi-objective GRPO: normalise, then weighted sum",
    source="the other order of the sum; GDPO, arXiv:2601.05242, without its normalisation over the batch",
    formula="A_i = sum_k w_k (s_k,i - mean_g s_k)/(std_g s_k + eps)",
    conventions={**MULTI_OBJECTIVE_GRPO.conventions, "order": "normalise each score in its group, then sum"},
    combine=NormalisedSum(),
    **{"credit.scale": None},
)

"""GRPO-LEAD: GRPO that favours short right answers and weighs scenarios by difficulty (arXiv:2504.09696).

`StandardisedLength` pays a right answer by its length among the group's right ones and a wrong one -1;
`LogisticAccuracy` multiplies advantages, so that rare successes and rare failures count most.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.segments import segment_mean, segment_std
from hocket.core.signals import RIGHT, counted_trajectories, right
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.conventions import LENGTH, RIGHT_ANSWERS
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import SCENARIO, with_return
from hocket.stages import Shaping


def length_scores(length: Tensor, among: Tensor, group: Tensor, size: int, epsilon: float) -> Tensor:
    """`(l_i - mean_g l) / (std_g l + epsilon)` over the members of `among` `[N]` bool; 0 for the others; float64.

    The deviation divides by the number of members, so a single member's score is 0.
    """
    own, place = length[among].double(), group[among]
    centre = own - segment_mean(own, place, size)[place]
    score = torch.zeros(len(length), dtype=torch.float64)
    score[among] = centre / (segment_std(own, place, size, ddof=0)[place] + epsilon)
    return score


@dataclass(frozen=True)
class StandardisedLength(Shaping):
    """Right answers earn `exp(-alpha z)`, z their length's z-score among the group's right ones; wrong ones `wrong`.

    GRPO-LEAD (arXiv 2504.09696). A group's only right answer has z = 0. The exponential is positive, so a right
    answer always beats a wrong one as long as `wrong` is not.

    Attributes:
        alpha: strength; the paper's runs take 0.05. wrong: reward of a wrong answer, at most 0.
        least: an answer is right when its return before is at least this. epsilon: added to the deviation.
    """

    alpha: float = 0.05
    wrong: float = -1.0
    least: float = RIGHT
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.wrong > 0:
            raise ValueError(f"alpha must be at least 0 and wrong at most 0, not {self.alpha} and {self.wrong}")

    def __call__(self, batch: Batch) -> Batch:
        groups, solved = SCENARIO(batch), right(batch, self.least)
        score = length_scores(
            batch.lengths(), solved & counted_trajectories(batch), groups.index, groups.size, self.epsilon
        )
        return with_return(batch, torch.where(solved, torch.exp(-self.alpha * score), self.wrong))


def logistic_weight(accuracy: Tensor, floor: float, height: float, slope: float, centre: float) -> Tensor:
    """`floor + height / (1 + exp(slope (x - centre)))`, same shape as x (GRPO-LEAD, arXiv 2504.09696)."""
    return floor + height * torch.sigmoid(-slope * (accuracy - centre))


@dataclass(frozen=True)
class LogisticAccuracy(Weight):
    """`w(rho)` where credit is positive and `w(1 - rho)` elsewhere, rho the group's accuracy; see `logistic_weight`.

    Rare successes on hard scenarios and rare failures on easy ones count most: GRPO-LEAD (arXiv 2504.09696), with the
    constants of its code. `success`: a member counts as right when its return exceeds this.
    """

    floor: float = 0.4
    height: float = 1.1
    slope: float = 10.0
    centre: float = 0.75
    success: float | None = 0.5

    def __call__(self, seen: Compared) -> Tensor:
        accuracy = seen.accuracy(self.success)
        looked = torch.where(seen.credit > 0, accuracy, 1 - accuracy)
        return logistic_weight(looked, self.floor, self.height, self.slope, self.centre)


GRPO_LEAD = GRPO.but(
    name="grpo-lead",
    title="GRPO with length-dependent accuracy, explicit penalty and difficulty weights",
    source="Zhang and Zuo, arXiv:2504.09696",
    catalogue_ids=("grpo-lead",),
    axes=("reward", "credit"),
    formula="R_i = exp(-a z_i) if right else -1;  A_i = (R_i - mean R)/(std R + eps) w(rho if A_i > 0 else 1 - rho),  "
    "w(x) = 0.4 + 1.1/(1 + exp(10 (x - 0.75)))",
    conventions={
        **GRPO.conventions,
        **RIGHT_ANSWERS,
        **LENGTH,
        "z-score": "over the right answers of the group, deviation by their number, epsilon 1e-6; alone it is 0",
        "released code": "takes the deviation by their number less one, and pays by length only where the three "
        "shortest samples of the group have more than 4,000 tokens on average",
        "strength": "a = shaping.0.alpha = 0.05",
        "rho": "share of the group with a positive return after shaping, as the public code counts",
    },
    shaping=(StandardisedLength(alpha=0.05, wrong=-1.0),),
    **{"credit.weigh": (LogisticAccuracy(success=0.0),)},
)

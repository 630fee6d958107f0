"""LiPO: preferences as learning to rank, with errors near the top weighing most (Liu et al., arXiv:2402.01878).

Several scored answers to a prompt are a list; implicit rewards should order it. `LambdaRanking` weighs each pair's
logistic loss by what swapping the two would change in the list's discounted gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.credit.reinforce import ReturnToGo
from hocket.methods.base.conventions import COMMON
from hocket.objectives.listwise import ListLoss, Listwise
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Ranked

LARGEST = 50.0
"""Labels beyond gain as much: 2^50 times another number is still finite in float32."""


@dataclass(frozen=True)
class LambdaRanking(ListLoss):
    """-sum over psi_i > psi_j of w_ij log sigmoid(s_i - s_j), w_ij = |G_i - G_j| |1/D(r_i) - 1/D(r_j)| (LiPO, eq. 10).

    G = 2^psi - 1, D(r) = log(1 + r), r the rank by the current s, from 1, held constant; among equal scores the better
    label ranks first, then the list's order.
    """

    def __call__(self, score: Tensor, label: Tensor) -> Tensor:
        by_label = torch.argsort(label, descending=True, stable=True)
        order = by_label[torch.argsort(score.detach()[by_label], descending=True, stable=True)]
        rank = torch.empty(len(score), dtype=score.dtype)
        rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
        gain, discount = 2 ** label.clamp(max=LARGEST) - 1, 1 / torch.log1p(rank)
        weight = (gain[:, None] - gain).abs() * (discount[:, None] - discount).abs()
        above = (label[:, None] > label).to(score.dtype)
        return -(above * weight * logsigmoid(score[:, None] - score)).sum()


LIPO = Recipe(
    name="lipo",
    title="Listwise Preference Optimisation, LiPO-lambda",
    source="Liu et al., arXiv:2402.01878, eqs. 8 to 10; the weight as in LambdaLoss",
    family="preference",
    catalogue_ids=("lipo",),
    axes=("objective",),
    formula="L = -mean_lists sum_{psi_i > psi_j} |2^psi_i - 2^psi_j| |1/log(1+r_i) - 1/log(1+r_j)| "
    "log sigmoid(s_i - s_j),  s = beta log pi(y)/ref(y)",
    task="graded-sums",
    conventions={
        **COMMON,
        "aggregation": "log-probs summed over an answer's decisions, mean over lists",
        "labels": "the recorded scores as they are; gains are exponential in them",
        "rank": "by current scores, constant in the gradient; ties go to the better label",
        "equal labels": "no loss between them; a list of equals does not count",
        "other losses": "objective.loss = list-mle or softmax-ranking; all weights 1 is DPO on all pairs",
        "reference": "the policy before training",
        "beta": "0.1",
    },
    rollout=Ranked(),
    credit=ReturnToGo(),
    objective=Listwise(LambdaRanking(), beta=0.1),
)

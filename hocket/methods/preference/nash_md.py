"""Nash-MD: answers are compared with a mixture of policy and reference, whose equilibrium is sought (arXiv:2312.00886).

The opponent is the geometric mixture pi^(1-m) ref^m of Munos et al. `MixtureWins` takes it among whole answers: the
policy's other answers to the prompt, weighted by (ref/pi)^m, stand for draws of it, so that nothing is sampled besides.
TRL mixes logits token by token while sampling a second answer, which is the paper's approximation. The charge for
leaving the reference is in the reward, as in the paper's algorithm 1 for a tabular policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.signals import returns
from hocket.methods.base.reinforce import REINFORCE
from hocket.objectives.aggregate import trajectory_sums
from hocket.objectives.ratios import recorded
from hocket.rewards.members import SCENARIO, groups_of, with_return
from hocket.rewards.shaping import KLInReward
from hocket.rewards.wins import PREFERENCES, Wins
from hocket.rollout.independent import Independent
from hocket.stages import Shaping


def shares_against(wins: Tensor, weight: Tensor) -> Tensor:
    """`sum_j w_j P(y_i > y_j) / sum_j w_j` over the others j, `[K]`, of wins `[K, K]` and log-weights `[K]`.

    An answer without others gets 1/2.
    """
    others = weight.expand(len(weight), -1).clone().fill_diagonal_(-torch.inf)
    return (torch.softmax(others, 1) * wins).sum(1) if len(weight) > 1 else torch.full_like(weight, 0.5)


@dataclass(frozen=True)
class MixtureWins(Shaping):
    """An answer's return becomes P(y > y') - 1/2, y' of the mixture pi^(1 - mixture) ref^mixture (arXiv 2312.00886).

    y' is drawn among the other answers of the group with weights (ref/pi)^mixture, normalised. At 0 the opponent is the
    policy itself and the share SPO's; at 1 it is the reference. Weights become uneven as the policy leaves the
    reference: then few answers stand for it.

    Attributes:
        wins: who beats whom. mixture: the reference's share, in [0, 1].
    """

    wins: Wins = Wins()
    mixture: float = 0.5

    least_samples: ClassVar[int] = 2
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR, Column.REFERENCE})

    def __post_init__(self) -> None:
        if not 0 <= self.mixture <= 1:
            raise ValueError(f"mixture must lie in [0, 1], not {self.mixture}")

    def __call__(self, batch: Batch) -> Batch:
        gap = recorded(batch, "reference").double() - recorded(batch, "behaviour").double()
        weight = self.mixture * trajectory_sums(gap[batch.occurrences.decision], batch)
        value = returns(batch).clone().double()
        for members in groups_of(batch, SCENARIO):
            value[members] = shares_against(self.wins.among(batch, members), weight[members]) - 0.5
        return with_return(batch, value)


NASH_MD = REINFORCE.but(
    name="nash-md",
    title="Nash-MD: policy gradient against a mixture of policy and reference",
    source="Munos et al., arXiv:2312.00886, section 7; TRL 1.12",
    family="preference",
    catalogue_ids=(),
    axes=("reward", "team"),
    formula="L = -mean_i (P(y_i > y') - 1/2 - tau log pi(y_i)/ref(y_i)) log pi(y_i),  y' ~ pi^(1-m) ref^m",
    conventions={
        **REINFORCE.conventions,
        "baseline": "1/2 for the win, none for the charge",
        "mixture": "m = 0.5, of whole answers: the group's others weighted by (ref/pi)^m; TRL mixes "
        "each token's logits",
        "tau": "0.1 as in TRL; a decision is charged for itself and those after it, which has the same mean as "
        "charging it for the whole answer",
        **PREFERENCES,
        "constant group": "all tie, and are drawn towards the reference",
    },
    note="the opponent's mixture is of whole answers, weighted among the policy's own; the paper samples from it token "
    "by token",
    rollout=Independent(samples=8),
    shaping=(MixtureWins(mixture=0.5), KLInReward(coefficient=0.1, estimator="k1")),
)

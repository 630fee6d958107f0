"""DRA-GRPO: GRPO that pays less for answers like the others of the group (arXiv:2505.09655).

`RedundancyDiscount` divides each return by the sum of an answer's similarities to its group, before GRPO normalises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.core.batch import Batch, GroupBy
from hocket.core.columns import EMBEDDING, Column
from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.embedding import embeddings
from hocket.rewards.members import groups_of, with_return
from hocket.stages import Shaping


def redundancy(vectors: Tensor, *, nonnegative: bool = True) -> Tensor:
    """`s_i = sum_j cos(e_i, e_j)` over all members, i included, `[M]`, of unit vectors `[M, D]`.

    The graph-cut form of the submodular mutual information between a member and its group. With `nonnegative` a
    cosine below 0 counts 0, without which the sum may not be positive.
    """
    cosines = vectors @ vectors.T
    return (cosines.clamp(min=0.0) if nonnegative else cosines).sum(-1)


@dataclass(frozen=True)
class RedundancyDiscount(Shaping):
    """`r'_i = r_i / (sum_{j in g} cos(e_i, e_j) + epsilon)`: DRA-GRPO (arXiv 2505.09655), as in its released trainer.

    r is the return. Vectors are the column `embedding`, which the run's embedder fills, by default with the policy's
    mean hidden states; where there is none, hashed n-grams of `text`. k equal texts unlike all others count 1/k each.
    Trajectories of weight 0 are no members and keep their reward.

    Attributes:
        by: whom a text is compared with. epsilon: added to the sum.
        nonnegative: cosines below 0 count 0, as a graph cut's similarities must; the sum is then at least 1. Without
            it the sum is the released one, and where it is not positive the sign of a reward would turn.

    Raises:
        ConfigurationError: on a call, for a sum that is not positive.
    """

    by: GroupBy = GroupBy("scenario")
    epsilon: float = 1e-6
    nonnegative: bool = True

    reads: ClassVar[frozenset[Column]] = frozenset({EMBEDDING})

    def __call__(self, batch: Batch) -> Batch:
        vectors, value = embeddings(batch, "RedundancyDiscount"), returns(batch).clone()
        for members in groups_of(batch, self.by):
            total = redundancy(vectors[members], nonnegative=self.nonnegative)
            if not bool((total + self.epsilon > 0).all()):
                raise ConfigurationError(
                    "RedundancyDiscount: the cosines of a text with its group add up to less than 0, which would turn "
                    "the sign of its reward; set nonnegative to true"
                )
            value[members] /= total + self.epsilon
        return with_return(batch, value)


DRA_GRPO = GRPO.but(
    name="dra-grpo",
    title="Diversity-aware Reward Adjustment",
    source="DRA-GRPO, arXiv:2505.09655",
    catalogue_ids=("dra-grpo",),
    axes=("reward", "credit"),
    formula="r'_i = R_i / (sum_{j in g} max(0, cos(e_i, e_j)) + 1e-6),  A_i = (r'_i - mean_g r')/(std_g r' + eps)",
    conventions={
        **GRPO.conventions,
        "embedding": "--embedder; by default the policy's mean last hidden state over the response, and hashed "
        "character bigrams and trigrams of text where a policy has none",
        "similarity epsilon": "shaping.0.epsilon = 1e-6, added to the sum",
        "negative cosines": "count 0 (shaping.0.nonnegative), so that the sum is at least 1; the release keeps them",
        "group of the sum": "the samples of the scenario, the sample itself included",
        "return": "all that was earned, divided as a whole",
    },
    shaping=(RedundancyDiscount(),),
)

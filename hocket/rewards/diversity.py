"""Rewards that depend on how different texts are: within a group, and within one text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.columns import TEXT
from hocket.errors import ConfigurationError
from hocket.rewards.embedding import embeddings
from hocket.rewards.members import groups_of, with_return
from hocket.signals import returns
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy


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

    r is the return. Vectors are the column `embedding` where recorded, else
    hashed n-grams of `text`. k equal texts unlike all others count 1/k each. Trajectories of weight 0 are no members
    and keep their reward.

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


_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")

HEADING = r"(?im)^\W*(?:role\s*:\s*|as\s+(?:an?\s+|the\s+)?)([^\W\d_][^:\n]{0,40}?)\W*:"
"""A line that opens the part of a role: `Role: teacher:`, `As a parent:`, `**As the mayor**:`."""


def words_of(text: str) -> list[str]:
    """Words and numbers in lower case."""
    return _WORD.findall(text.lower())


def distinct_n(text: str, n: int = 2) -> float:
    """The share of different ones among a text's word n-grams (Li et al. 2016, arXiv 1510.03055); 0 without any."""
    words = words_of(text)
    grams = list(zip(*(words[start:] for start in range(n)), strict=False))
    return len(set(grams)) / len(grams) if grams else 0.0


def roles_of(text: str, heading: str = HEADING) -> set[str]:
    """The different roles that headings of a text name."""
    return {" ".join(name.lower().split()) for name in re.findall(heading, text)}


@dataclass(frozen=True)
class RoleDiversity(Shaping):
    """`R += weight (share min(1, roles / target) + (1 - share) distinct-n)`, of each text on its own.

    MultiRole-R1 (arXiv 2507.20187) rewards perspectives and lexical variety besides the answer; the two terms and
    their weights are chosen here. With `weight` 0 the batch is handed on untouched.

    Attributes:
        weight: of the whole term; above some 0.2 diversity begins to buy wrong answers.
        share: of the roles in the term. target: how many different roles are enough. n: of the n-grams.
        heading: a regular expression whose first group is the role's name.
    """

    weight: float = 0.2
    share: float = 0.5
    target: int = 3
    n: int = 2
    heading: str = HEADING

    def __post_init__(self) -> None:
        if self.target < 1 or self.n < 1 or not 0 <= self.share <= 1:
            raise ValueError("target and n must be at least 1 and share must lie in [0, 1]")
        if re.compile(self.heading).groups < 1:
            raise ValueError("heading must have a group in parentheses around the role's name")

    def __call__(self, batch: Batch) -> Batch:
        if self.weight == 0:
            return batch
        texts = TEXT.read(batch, "RoleDiversity")
        terms = [self.diversity(text or "") for text in texts]
        return with_return(batch, returns(batch) + self.weight * torch.tensor(terms, dtype=torch.float64))

    def diversity(self, text: str) -> float:
        """The term before its weight, in [0, 1]."""
        roles = min(1.0, len(roles_of(text, self.heading)) / self.target)
        return self.share * roles + (1 - self.share) * distinct_n(text, self.n)

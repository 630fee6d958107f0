"""MultiRole-R1: GRPO that rewards reasoning from several perspectives in varied words (arXiv:2507.20187).

`RoleDiversity` adds a bounded term for the roles that headings name and for the share of different word pairs, in a
form chosen here. It is the second stage; the first is supervised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.signals import returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import with_return
from hocket.rewards.similarity import words_of
from hocket.stages import Shaping

HEADING = r"(?im)^\W*(?:role\s*:\s*|as\s+(?:an?\s+|the\s+)?)([^\W\d_][^:\n]{0,40}?)\W*:"
"""A line that opens the part of a role: `Role: teacher:`, `As a parent:`, `**As the mayor**:`."""


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


MULTIROLE_R1 = GRPO.but(
    name="multirole-r1",
    title="Diversity-enhanced reasoning in several roles",
    source="Diversity-Enhanced Reasoning for Subjective Questions, arXiv:2507.20187",
    catalogue_ids=("multirole-r1",),
    axes=("reward", "data", "team"),
    formula="R'_i = R_i + w (0.5 min(1, roles_i/3) + 0.5 distinct-2_i),  then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "diversity": "the two terms and w = shaping.0.weight = 0.2 are chosen here; w = 0 is GRPO bit for bit",
        "roles": "different names in headings such as 'As a teacher:' or 'Role: parent:' (shaping.0.heading)",
        "distinct-n": "of words in lower case, n = 2; 0 for a text of fewer words",
    },
    note="the second stage; the merged role chains of the first are demonstrations for a phase of sft before it; the "
    "shipped base names no roles, so of the term its variety of words alone acts",
    shaping=(RoleDiversity(),),
)

"""TTRV: GRPO without labels, on how frequent an answer is in its own group (arXiv:2510.06783).

`VoteReward` pays the share of samples that agree with an answer, less a term for the group's entropy, in place of a
verdict; by setting, the majority's answers alone earn, as in TTRL.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from hocket.core.batch import Batch, GroupBy
from hocket.core.columns import TEXT, info_column
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import groups_of, with_return
from hocket.stages import Shaping

Vote = Literal["share", "majority"]


def vote_shares(answers: Sequence[str | None]) -> list[float]:
    """`p(y_i) = count(y_i) / N` of each sample's own answer; 0 where there is none. N counts all samples."""
    counts = Counter(answer for answer in answers if answer is not None)
    return [0.0 if answer is None else counts[answer] / len(answers) for answer in answers]


def majority_votes(answers: Sequence[str | None]) -> list[float]:
    """1 for the most frequent answer (each of several equally frequent ones), else 0: TTRL (arXiv 2504.16084)."""
    shares = vote_shares(answers)
    highest = max(shares, default=0.0)
    return [float(share == highest and share > 0) for share in shares]


def vote_entropy(answers: Sequence[str | None], *, normalise: bool = False) -> float:
    """`H(p) = -sum_y p(y) log p(y)` of the answers, in nats; samples without one are one outcome more.

    With `normalise` it is divided by the logarithm of the number of outcomes; a single outcome gives 0 either way.
    """
    counts = Counter(answers)
    found = -sum(count / len(answers) * math.log(count / len(answers)) for count in counts.values())
    return max(0.0, found) / (math.log(len(counts)) if normalise and len(counts) > 1 else 1.0)


@dataclass(frozen=True)
class VoteReward(Shaping):
    """`r_i = p(y_i) - entropy H(p)`, p the shares of answers in the group: TTRV (arXiv 2510.06783).

    It replaces the reward: no label is used. Experience without any words (a controller's) keeps its own. The second
    term is the same for a whole group, so a baseline within the group removes it. The 0.75 and the normalised entropy
    are those of a public implementation of the paper.

    Attributes:
        by: whose answers are counted together. column: of `batch.info`, the answer as a word or None.
        vote: `share` grades answers by their share, `majority` gives 1 to the most frequent and 0 to the others.
        entropy: the coefficient a of the entropy. normalise: the entropy is divided by its maximum.
        missing: the reward of a sample without an answer.
    """

    by: GroupBy = GroupBy("scenario")
    column: str = "label"
    vote: Vote = "share"
    entropy: float = 0.75
    normalise: bool = True
    missing: float = 0.0

    def __post_init__(self) -> None:
        if self.vote not in ("share", "majority"):
            raise ValueError(f"vote must be 'share' or 'majority', not {self.vote!r}")

    def __call__(self, batch: Batch) -> Batch:
        answers = info_column(batch, self.column, "VoteReward")
        if not any(answers) and not any(TEXT.rows(batch)):
            return batch
        value = torch.zeros(batch.trajectories, dtype=torch.float64)
        for members in groups_of(batch, self.by):
            given = [answers[row] for row in members]
            graded = vote_shares(given) if self.vote == "share" else majority_votes(given)
            cost = self.entropy * vote_entropy(given, normalise=self.normalise) if given else 0.0
            for row, answer, grade in zip(members, given, graded, strict=True):
                value[row] = (self.missing if answer is None else grade) - cost
        return with_return(batch, value)


TTRV = GRPO.but(
    name="ttrv",
    title="Test-Time Reinforcement Learning by answer frequency",
    source="TTRV, arXiv:2510.06783",
    catalogue_ids=("ttrv",),
    axes=("reward", "data"),
    formula="r_i = count_g(y_i)/G - 0.75 H(p)/log K,  A_i = (r_i - mean_g r)/(std_g r + eps)",
    conventions={
        **GRPO.conventions,
        "labels": "none are used: the verifiers' scores are replaced",
        "entropy": "0.75 times the normalised one, from a public implementation; a group baseline removes it",
        "no answer": "reward 0 before the entropy term, and one outcome more in the entropy",
        "no words": "where nothing was written at all (a controller), rewards stay",
        "majority": "shaping.0.vote=majority gives 0/1 to the most frequent answers instead, all of them when tied",
    },
    note="shown on text answers; images come with their modality",
    shaping=(VoteReward(),),
)

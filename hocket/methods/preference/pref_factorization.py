"""Rewards of many users as mixtures of a few: r_u = lambda_u . phi, learnt together (PReF, arXiv:2503.06358, recalled).

A scorer with J outputs gives phi; each user's weights lambda_u are those that explain that user's comparisons best
(`FactoredPairs`). A new user's weights come from a handful of comparisons (`hocket.rewards.judge.logistic`), asked
where they are least certain (`next_query`), and `--reward model:RUN?output=0=W` with one flag per output pays by them:
no model per user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch, Level
from hocket.core.columns import info_or_metadata
from hocket.core.errors import ConfigurationError, HocketError
from hocket.methods.base.reward_model import REWARD_MODEL
from hocket.objectives.aggregate import counted_lengths, mean, share
from hocket.rewards.judge import logistic
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def next_query(candidates: Tensor, asked: Tensor, weights: Tensor, ridge: float, *, by_chance: bool = True) -> int:
    """Which of the `candidates` `[n, J]`, differences of phi, to ask: where d^T H^-1 d is largest, the first of equals.

    `asked` `[m, J]` are the comparisons already made (the preferred one first, or not: H is the same), `weights` `[J]`
    what they say. With `by_chance` the variance p (1 - p) of the answer multiplies, as it does in what the answer adds
    to H: long differences, whose answer is known beforehand, tell nothing. Without it is the rule as recalled.
    """
    known = torch.sigmoid(asked @ weights)
    curvature = asked.T @ ((known * (1 - known))[:, None] * asked) + ridge * torch.eye(len(weights), dtype=asked.dtype)
    width = ((candidates @ torch.linalg.inv(curvature)) * candidates).sum(1)
    chance = torch.sigmoid(candidates @ weights)
    return int((width * chance * (1 - chance) if by_chance else width).argmax())


@dataclass(frozen=True)
class FactoredPairs(Objective):
    """Minimises the mean over pairs of -log sigmoid(lambda_u . d) + c/2 |d|^2, d = phi(preferred) - phi(other).

    lambda_u is at every evaluation the minimiser of user u's sum over the batch plus ridge/2 |lambda_u|^2, so that its
    own change adds nothing to the gradient; held-out pairs are measured with the weights that explain them best. phi is
    read where credit says, and c keeps it from growing against the ridge.

    Attributes:
        rank: J, the scorer's outputs. column: the info or metadata column that names a pair's user.
        ridge, spread: of lambda; c.

    Raises:
        ValueError: for a setting out of range. HocketError: on a call, for a batch without pairs.
        ConfigurationError: on a call, for a pair without a user.
    """

    rank: int = 2
    column: str = "group"
    ridge: float = 0.1
    spread: float = 0.01

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.SCORE})
    couples: ClassVar[Level] = Level.BATCH
    compares_pairs: ClassVar[bool] = True
    idle_without_advantage: ClassVar[bool] = False
    held_out: ClassVar[str | None] = "pairs/accuracy"

    def __post_init__(self) -> None:
        if self.rank < 1 or self.ridge <= 0 or self.spread < 0:
            raise ValueError(
                "rank must be at least 1, ridge positive and spread at least 0, not "
                f"{self.rank}, {self.ridge} and {self.spread}"
            )

    @property
    def outputs(self) -> int:
        return self.rank

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        if seen.pairs is None:
            raise HocketError("the loss compares pairs, but credit gave none; use a credit that pairs trajectories")
        every = now.get(Quantity.SCORE)[:, : self.rank]
        read = every[seen.decision] * seen.weight.to(every.dtype)[:, None]
        phi = torch.zeros(batch.trajectories, self.rank, dtype=every.dtype).index_add(0, seen.trajectory, read)
        difference = phi[seen.pairs[:, 0]] - phi[seen.pairs[:, 1]]
        weight = torch.ones(len(difference)) if seen.pair_weight is None else seen.pair_weight
        weight = weight.to(difference.dtype) * (counted_lengths(batch)[seen.pairs] > 0).all(1)
        told = info_or_metadata(batch, self.column)
        users = [told[row] for row in seen.pairs[:, 0].tolist()]
        if any(user is None for user in users):
            raise ConfigurationError(
                f"FactoredPairs reads the {self.column!r} of every pair, who it is that prefers, and one has none; "
                "give the data that column"
            )
        mixture = torch.zeros_like(difference)
        for name in sorted(set(users), key=str):
            rows = torch.tensor([user == name for user in users])
            own = difference.detach()[rows].double()
            preferred = torch.ones(len(own), dtype=torch.float64)
            mixture[rows] = logistic(own, preferred, self.ridge, counts=weight[rows].double()).to(mixture.dtype)
        gap = (mixture * difference).sum(1)
        value = -logsigmoid(gap) + self.spread / 2 * difference.square().sum(1)
        counted = weight != 0
        metrics = {
            "pairs/total": counted.sum().double(),
            "pairs/accuracy": share(gap > 0, counted),
            "pairs/margin": mean(gap, counted),
            "users/total": torch.tensor(float(len(set(users)))),
        }
        return Terms(value, weight / counted.sum().clamp(min=1), Level.BATCH, metrics)


PREF_FACTORIZATION = REWARD_MODEL.but(
    name="pref-factorization",
    title="Rewards of many users as mixtures of a few base rewards",
    source="Language Model Personalization via Reward Factorization (PReF), arXiv:2503.06358, recalled",
    catalogue_ids=("pref-factorization",),
    axes=("reward", "data", "policy"),
    formula="L = -mean_pairs log sigmoid(lambda_u . d) + c/2 |d|^2,  d = phi(y_w) - phi(y_l),  "
    "lambda_u = argmin -sum_u log sigmoid(lambda . d) + ridge/2 |lambda|^2;  ask argmax p(1-p) d^T H^-1 d",
    task="graded-sums?dissent=0.3",
    conventions={
        **REWARD_MODEL.conventions,
        "margin": "none",
        "label smoothing": "none",
        "centring": "none: only differences count",
        "users": "the column `group` of the data (objective.column); each needs several pairs in a batch",
        "user weights": "solved for exactly in every batch, ridge 0.1, chosen here; the paper alternates from an SVD",
        "scale": "c = 0.01 on differences of base rewards, chosen here",
        "base rewards": "J = 2 (objective.rank)",
        "queries": "the variance p(1-p) of the answer multiplies; as recalled the paper leaves it out",
        "start": "the head is drawn at random; no SVD",
    },
    objective=FactoredPairs(),
)

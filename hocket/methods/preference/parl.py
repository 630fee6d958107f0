"""PARL: a reward fitted to preferences on samples of the policy that it makes (Chakraborty et al., arXiv:2308.02585).

The reward decides what its optimal policy samples, hence on which pairs it is judged: `min_nu G(nu, theta*(nu))` above,
`theta*(nu) = argmax J(theta; r_nu)` below. The gradient of the whole has a second part, `-(d_nu d_theta J)
(d^2_theta J)^-1 d_theta G`, which alternating schemes leave out. For a policy charged with beta KL to a reference it
has a closed form, since `d log pi*(y) / d nu = (phi(y) - E phi) / beta` for `r_nu = nu . phi`, and samples estimate it
without bias (`hypergradient`). `BilevelReward` steps along it on every batch and pays by the reward that it has learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.errors import ConfigurationError
from hocket.methods.base.rloo import RLOO
from hocket.rewards.members import SCENARIO, groups_of, with_return
from hocket.rewards.ngrams import Orders, counts
from hocket.rewards.shaping import KLInReward
from hocket.rewards.wins import PREFERENCES, Wins
from hocket.stages import Shaping, State


def hypergradient(features: Tensor, wins: Tensor, weight: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """The two parts of dG/dnu from K samples of one prompt, `[D]` each: at fixed samples, and through their policy.

    G is the mean over pairs of `-p log sigmoid(h) - (1 - p) log sigmoid(-h)`, h the difference of rewards. With samples
    of theta*(nu) the sum of both is an unbiased estimate: the second weighs a pair's loss with
    `(phi_i + phi_j - 2 mean_{k not in {i, j}} phi_k) / beta`. Fewer than three samples say nothing of it, and it is 0.

    Args:
        features: phi, `[K, D]`. wins: p, the probability that row is preferred to column, `[K, K]`.
        weight: nu, `[D]`. beta: of the KL that the policy is charged.
    """
    size = len(features)
    left, right = torch.triu_indices(size, size, 1)
    if not len(left):
        return torch.zeros_like(weight), torch.zeros_like(weight)
    reward, target = features @ weight, wins[left, right]
    gap = reward[left] - reward[right]
    direct = ((torch.sigmoid(gap) - target)[:, None] * (features[left] - features[right])).mean(0)
    if size < 3:
        return direct, torch.zeros_like(weight)
    loss = torch.nn.functional.softplus(gap) - target * gap
    pair = features[left] + features[right]
    others = (features.sum(0) - pair) / (size - 2)
    return direct, (loss[:, None] * (pair - 2 * others)).mean(0) / beta


@dataclass(frozen=True)
class BilevelReward(Shaping):
    """A reward linear in n-grams of the answer, moved by `hypergradient` on the step's samples; it replaces the return.

    Answers are paid by the reward as it is after the step. Stateful: it remembers the reward's weights.

    Attributes:
        beta: of the KL that the policy is charged; the recipe's `KLInReward` has the same.
        lr: of plain gradient descent on nu. longest: a gradient's norm at most; it is cut to that, None for never. The
            closed form is of the policy that a reward leads to, behind which the real one lags, and without a bound
            the error of a large reward makes it larger still: nu grows tenfold at every step.
        decay: the share of nu that a step takes away.
        implicit: whether the part through the policy enters; without it reward and policy merely alternate.
        wins: who beats whom. buckets, orders: of the n-grams.

    Raises:
        ConfigurationError: on a call, when no answer has any words.
    """

    beta: float = 0.1
    lr: float = 0.05
    longest: float | None = 1.0
    decay: float = 0.0
    implicit: bool = True
    wins: Wins = Wins()
    buckets: int = 512
    orders: Orders = (1, 2, 3)

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.beta <= 0 or self.lr <= 0:
            raise ValueError(f"beta and lr must be positive, not {self.beta} and {self.lr}")
        if self.longest is not None and self.longest <= 0:
            raise ValueError(f"longest must be positive, not {self.longest}")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must be in [0, 1), not {self.decay}")

    def init(self) -> State:
        """A reward that is 0 everywhere."""
        return {"weight": torch.zeros(self.buckets, dtype=torch.float64)}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        weight: Tensor = state["weight"]
        texts = [text or "" for text in TEXT.read(batch, "BilevelReward")]
        if not any(texts):
            raise ConfigurationError("BilevelReward rewards words, and no answer has any; use it on a task of text")
        phi = self.features(texts)
        parts: list[Tensor] = []
        for members in groups_of(batch, SCENARIO):
            if len(members) > 1:
                direct, through = hypergradient(phi[members], self.wins.among(batch, members), weight, self.beta)
                parts.append(direct + through if self.implicit else direct)
        if parts:
            step = torch.stack(parts).mean(0)
            size = float(step.norm())
            if self.longest is not None and size > self.longest:
                step = step * (self.longest / size)
            weight = (1 - self.decay) * weight - self.lr * step
        return with_return(batch, phi @ weight), {"weight": weight}

    def features(self, texts: Sequence[str]) -> Tensor:
        """phi: how often each bucket's n-grams stand in each text, `[M, buckets]`."""
        return counts(texts, buckets=self.buckets, orders=self.orders)


BETA = 0.1


PARL = RLOO.but(
    name="parl",
    title="PARL: policy alignment as a bilevel problem",
    source="Chakraborty et al., arXiv:2308.02585; the closed form of the implicit term derived",
    family="preference",
    catalogue_ids=("parl",),
    axes=("objective", "reward", "data"),
    formula="dG/dnu = d_nu G - (d_nu d_theta J)(d^2_theta J)^-1 d_theta G = E[(sigmoid(h) - p)(phi_i - phi_j)] "
    "+ 1/beta E[l(h, p)(phi_i + phi_j - 2 E phi)],  h = nu.(phi_i - phi_j);  policy: RLOO on nu.phi - beta KL",
    conventions={
        **RLOO.conventions,
        "KL": "beta = 0.1 in the reward, the k1 estimate, which is what makes the implicit term a closed form",
        "reward": "linear in counts of n-grams of the answer's text, nu = 0 at first; the task's own rewards are what "
        "preferences go by and are paid to nobody",
        "inverse Hessian": "none is estimated: at the optimum charged with KL the term is a covariance of the policy",
        "upper step": "one of gradient descent per batch, on all pairs of each group, before answers are paid; a "
        "gradient longer than 1 is cut to that (shaping.0.longest), without which nu and returns grow tenfold a step",
        "lower steps": "one per batch: the policy lags behind the optimum that the closed form takes it for",
        **PREFERENCES,
    },
    shaping=(BilevelReward(beta=BETA), KLInReward(coefficient=BETA, estimator="k1")),
)


PARL_ALTERNATING = PARL.but(
    name="parl-alternating",
    title="Reward fitting and policy training in turn, on the policy's own samples",
    formula="dG/dnu = E[(sigmoid(h) - p)(phi_i - phi_j)] alone;  policy: RLOO on nu.phi - beta KL",
    **{"shaping.0.implicit": False},
)

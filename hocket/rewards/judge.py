"""Small judges without a language model: one that errs at given rates, and models fitted to texts.

A function or an endpoint judges as a `FunctionReward`, a policy as a role of a workflow that returns its answer as a
reward. These stand in where a paper has a large judge or a reward model; `accuracy` tells how good they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.rewards.ngrams import Orders, counts
from hocket.stages import Reward
from hocket.types import Trajectory


@dataclass(frozen=True)
class NoisyJudge(Reward):
    """The verdict of another reward (1 from 0.5 on, else 0), reversed at stated rates: a verifier as a noisy channel.

    Each trajectory has its own draw, from the key of the call, the scenario and the sample. No opinion stays none.

    Attributes:
        of: what tells the truth. false_positive: P(1 | truth 0). false_negative: P(0 | truth 1).
    """

    of: Reward
    false_positive: float = 0.0
    false_negative: float = 0.0
    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for rate in ("false_positive", "false_negative"):
            if not 0 <= getattr(self, rate) <= 1:
                raise ValueError(f"{rate} must lie in [0, 1], not {getattr(self, rate)}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        truths = await self.of(trajectories, key=key)
        verdicts: list[float | None] = []
        for trajectory, truth in zip(trajectories, truths, strict=True):
            draw = key.derive("noise", trajectory.scenario.id, trajectory.source, trajectory.sample).numpy().random()
            verdicts.append(None if truth is None else self._verdict(truth >= 0.5, draw))
        return verdicts

    def _verdict(self, truth: bool, draw: float) -> float:
        return float(draw >= self.false_negative) if truth else float(draw < self.false_positive)


@dataclass(frozen=True, eq=False)
class NgramModel:
    """Linear scores of a text's n-gram counts: `s_k = bias_k + sum_b weight_kb log(1 + count_b)`, float64.

    Attributes:
        weight: `[K, buckets]`. bias: `[K]`. orders: lengths of the n-grams.
    """

    weight: Tensor
    bias: Tensor
    orders: Orders = (1, 2, 3)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Scores `[M, K]`."""
        return features(texts, self.weight.shape[1], self.orders) @ self.weight.T + self.bias


def features(texts: Sequence[str], buckets: int, orders: Orders) -> Tensor:
    """`log(1 + count)` per bucket, `[M, buckets]`."""
    return counts(texts, buckets=buckets, orders=orders).log1p()


def fit_scores(
    texts: Sequence[str], scores: Tensor, *, ridge: float = 1.0, buckets: int = 512, orders: Orders = (1, 2, 3)
) -> NgramModel:
    """Ridge regression of K scores `[M, K]`, a head each: `min sum_i |s(x_i) - y_i|^2 + ridge |weight|^2`, closed form.

    The bias is not penalised.
    """
    inputs, targets = features(texts, buckets, orders), scores.double()
    middle, level = inputs.mean(0), targets.mean(0)
    centred = inputs - middle
    gram = centred.T @ centred + ridge * torch.eye(buckets, dtype=torch.float64)
    weight = torch.linalg.solve(gram, centred.T @ (targets - level)).T
    return NgramModel(weight, level - weight @ middle, orders)


def fit_verdicts(
    texts: Sequence[str],
    verdicts: Sequence[float],
    *,
    ridge: float = 0.1,
    buckets: int = 512,
    orders: Orders = (1, 2, 3),
) -> NgramModel:
    """Logistic regression of verdicts in {0, 1}; the score is the log-odds of 1."""
    inputs = features(texts, buckets, orders)
    extended = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], 1)
    weights = logistic(extended, torch.tensor(list(verdicts), dtype=torch.float64), ridge)
    return NgramModel(weights[None, :-1], weights[-1:], orders)


def fit_preferences(
    pairs: Sequence[tuple[str, str]], *, ridge: float = 0.1, buckets: int = 512, orders: Orders = (1, 2, 3)
) -> NgramModel:
    """Bradley-Terry: P(first preferred over second) = sigmoid(s(first) - s(second)), by maximum likelihood."""
    better = features([first for first, _ in pairs], buckets, orders)
    other = features([second for _, second in pairs], buckets, orders)
    weights = logistic(better - other, torch.ones(len(pairs), dtype=torch.float64), ridge)
    return NgramModel(weights[None], torch.zeros(1, dtype=torch.float64), orders)


def logistic(
    inputs: Tensor, labels: Tensor, ridge: float, *, counts: Tensor | None = None, iterations: int = 50
) -> Tensor:
    """`argmin_w sum_i c_i (log(1 + e^(x_i w)) - y_i x_i w) + ridge/2 |w|^2`, `[D]`, by Newton with halved steps.

    `counts` `[M]` are c, 1 where None.
    """
    if ridge <= 0:
        raise ValueError(f"ridge must be positive, so that there is one optimum, not {ridge}")
    weight = torch.zeros(inputs.shape[1], dtype=torch.float64)
    times = torch.ones(len(inputs), dtype=torch.float64) if counts is None else counts

    def loss(at: Tensor) -> Tensor:
        scores = inputs @ at
        each = torch.nn.functional.softplus(scores) - labels * scores
        return (times * each).sum() + ridge / 2 * at.square().sum()

    for _ in range(iterations):
        chance = torch.sigmoid(inputs @ weight)
        gradient = inputs.T @ (times * (chance - labels)) + ridge * weight
        if float(gradient.abs().max()) < 1e-9:
            break
        curvature = inputs.T @ (inputs * (times * chance * (1 - chance))[:, None])
        step = torch.linalg.solve(curvature + ridge * torch.eye(len(weight), dtype=torch.float64), gradient)
        size = 1.0
        while loss(weight - size * step) > loss(weight) and size > 1e-6:
            size /= 2
        weight = weight - size * step
    return weight


def accuracy(model: NgramModel, texts: Sequence[str], verdicts: Sequence[float], head: int = 0) -> float:
    """The share of verdicts that agree with the sign of the score."""
    signs = model(texts)[:, head] > 0
    return float((signs == (torch.tensor(list(verdicts)) >= 0.5)).double().mean())


def pair_accuracy(model: NgramModel, pairs: Sequence[tuple[str, str]], head: int = 0) -> float:
    """The share of pairs whose first text scores higher."""
    first, second = model([a for a, _ in pairs])[:, head], model([b for _, b in pairs])[:, head]
    return float((first > second).double().mean())


@dataclass(frozen=True)
class TextJudge(Reward):
    """A fitted model's score of the last turn's text: a nano reward model, or a judge when `verdict` is set.

    Attributes:
        model: from `fit_scores`, `fit_verdicts` or `fit_preferences`. head: which of its scores.
        verdict: 1 for a positive score, else 0, instead of the score itself.
    """

    model: NgramModel
    head: int = 0
    verdict: bool = False
    name: str = "model"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        if not trajectories:
            return []
        scores = self.model([trajectory.text for trajectory in trajectories])[:, self.head]
        return [float(score > 0) if self.verdict else float(score) for score in scores]


def heads(model: NgramModel, weights: Mapping[str, float]) -> tuple[TextJudge, ...]:
    """One reward per head of a model, named and weighted in order."""
    return tuple(TextJudge(model, head, name=name, weight=own) for head, (name, own) in enumerate(weights.items()))

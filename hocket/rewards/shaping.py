"""Reward shaping: changes of the combined reward and of weights before credit is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, RecordedNumbers
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.signals import REWARD
from hocket.stages import Shaping

Estimator = Literal["k1", "k2", "k3"]


def added(batch: Batch, level: Level, change: Tensor) -> Batch:
    """The batch with `change` added to the combined reward at `level`; a missing reward counts as 0."""
    name = REWARD[level]
    total = batch.scores[name].values + change if name in batch.scores else change
    return batch.but(scores={**batch.scores, name: LevelScores(level, total)})


def overlong_penalty(lengths: Tensor, limit: int, buffer: int) -> Tensor:
    """0 up to `limit - buffer`, then falling linearly to -1 at `limit` and beyond (DAPO, equation 13). Float64."""
    return ((limit - buffer - lengths.double()) / buffer).clamp(-1.0, 0.0)


@dataclass(frozen=True)
class OverlongPenalty(Shaping):
    """Soft overlong punishment (DAPO, arXiv 2503.14476, equation 13), added to the trajectory's reward.

    Attributes:
        limit: the number of decisions in a trajectory, over all turns, at which the full `penalty` applies.
        buffer: the number of decisions before the limit over which it grows.
        penalty: the penalty at the limit.
    """

    lengths: ClassVar[tuple[str, ...]] = (
        "limit",
        "buffer",
    )

    limit: int
    buffer: int
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.limit:
            raise ValueError(f"buffer must lie between 1 and limit = {self.limit}, not {self.buffer}")

    def __call__(self, batch: Batch) -> Batch:
        penalty = self.penalty * overlong_penalty(batch.lengths(), self.limit, self.buffer)
        return added(batch, Level.TRAJECTORY, penalty)


def kl_estimate(logp: Tensor, reference: Tensor, estimator: Estimator) -> Tensor:
    """An estimate of KL(policy || reference) from actions of the policy; same shape, nats.

    With x = log(reference / policy): k1 is -x, k2 is x^2 / 2, k3 is e^x - 1 - x (Schulman 2020, "Approximating KL
    divergence"). k1 and k3 are unbiased. In `e^x`, x is clamped to at most 50, so that k3 stays finite.
    """
    x = reference - logp
    if estimator == "k1":
        return -x
    if estimator == "k2":
        return x.square() / 2
    return torch.expm1(x.clamp(max=50.0)) - x


@dataclass(frozen=True)
class KLInReward(Shaping):
    """`r_t -= coefficient * KL estimate` at every decision: the KL penalty of RLHF's PPO (arXiv 2203.02155) and RLOO.

    The policy's log-probs are the proximal ones if recorded, else those of the behaviour policy. Forced decisions, and
    decisions without one of the two log-probs, get no penalty.

    Raises:
        ConfigurationError: on a call, when the batch has no reference log-probs.
    """

    coefficient: float = 0.05
    estimator: Estimator = "k1"

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR, Column.REFERENCE})

    def __post_init__(self) -> None:
        if self.estimator not in ("k1", "k2", "k3"):
            raise ValueError(f"estimator must be k1, k2 or k3, not {self.estimator!r}")

    def __call__(self, batch: Batch) -> Batch:
        if Column.REFERENCE.name not in batch.logp:
            raise ConfigurationError("KLInReward reads log-probs 'reference', which are missing")
        policy, reference = _policy_logp(batch), batch.logp[Column.REFERENCE.name]
        estimate = kl_estimate(policy.values.detach().double(), reference.values.detach().double(), self.estimator)
        known = policy.present & reference.present & ~batch.forced
        cost = torch.where(known, estimate, 0.0)[batch.occurrences.decision]
        return added(batch, Level.DECISION, -self.coefficient * cost)


def _policy_logp(batch: Batch) -> RecordedNumbers:
    """Proximal log-probs where recorded, else the behaviour policy's."""
    behaviour = batch.logp[Column.BEHAVIOUR.name]
    proximal = batch.logp.get(Column.PROXIMAL.name)
    if proximal is None:
        return behaviour
    values = torch.where(proximal.present, proximal.values, behaviour.values)
    return RecordedNumbers(values, proximal.present | behaviour.present)


@dataclass(frozen=True)
class MaskTruncated(Shaping):
    """Weight 0 for truncated trajectories: overlong filtering (DAPO, arXiv 2503.14476, section 3.4).

    As a shaping it excludes them from the statistics of credit too. As a recipe's `correction`, which runs after
    credit, it excludes only their gradient.
    """

    def __call__(self, batch: Batch) -> Batch:
        occurrences = batch.occurrences
        cut = batch.truncated[occurrences.trajectory]
        return batch.credited(weight=torch.where(cut, torch.zeros_like(occurrences.weight), occurrences.weight))

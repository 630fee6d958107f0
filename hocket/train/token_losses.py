"""Losses of a loop of one's own: from the log-probs of tokens and columns beside them to a number to minimise.

Each is a sum over tokens, without a mean, as in Tinker's API (its page "Loss functions"): the caller puts means into
the weights or advantages. Weights and advantages of 0 leave a token out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

Columns = Mapping[str, Tensor]
"""What a loss reads beside log-probs, by name, `[K]` each."""


class TokenLoss(Protocol):
    """A loss that is a sum over tokens.

    Attributes:
        reads: the columns that every example must have.
    """

    reads: ClassVar[tuple[str, ...]]

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        """The loss of each token, `[K]`, from its log-prob `[K]` in nats."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """-w log p: imitation of the targets, each with its weight."""

    reads: ClassVar[tuple[str, ...]] = ("weights",)

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        return -columns["weights"] * logp


@dataclass(frozen=True)
class ImportanceSampling:
    """-(p / q) A, with the log-prob `logprobs` under which the token was sampled: REINFORCE for samples of others."""

    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages")

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        return -_ratio(logp, columns) * columns["advantages"]


@dataclass(frozen=True)
class ClippedRatio:
    """PPO (Schulman et al. 2017, equation 7): -min(r A, clip(r) A).

    Attributes:
        low, high: the bounds of the ratio.
    """

    low: float = 0.8
    high: float = 1.2
    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages")

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        ratio, advantage = _ratio(logp, columns), columns["advantages"]
        return -(ratio * advantage).minimum(ratio.clamp(self.low, self.high) * advantage)


@dataclass(frozen=True)
class ClippedWeight:
    """CISPO (MiniMax 2025, equation 4): -sg(clip(r)) A log p; a clipped token keeps its gradient.

    Attributes:
        low, high: the bounds of the ratio.
    """

    low: float = 0.8
    high: float = 1.2
    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages")

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        weight = _ratio(logp, columns).detach().clamp(self.low, self.high)
        return -weight * columns["advantages"] * logp


@dataclass(frozen=True)
class QuadraticPenalty:
    """DRO (Richemond et al. 2024): -A log p + beta / 2 (log p - log q)^2.

    Attributes:
        beta: of the penalty.
    """

    beta: float = 0.05
    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages")

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        return -columns["advantages"] * logp + 0.5 * self.beta * (logp - columns["logprobs"]) ** 2


SequenceLoss = Callable[[Sequence[Tensor]], Tensor]
"""A loss of whole examples: from the log-probs of each, `[L]`, to a scalar."""


def _ratio(logp: Tensor, columns: Columns) -> Tensor:
    return (logp - columns["logprobs"]).exp()


def _check_bounds(low: float, high: float) -> None:
    if not 0 <= low <= 1 <= high:
        raise ValueError(f"the ratio's bounds must be around 1, not {low} and {high}")

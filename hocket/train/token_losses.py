"""Losses of a loop of one's own: from the log-probs of tokens and columns beside them to a number to minimise.

Each is a sum over tokens, without a mean, as in Tinker's API (its page "Loss functions"): the caller puts means into
the weights or advantages. Weights and advantages of 0 leave a token out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from hocket.core.batch import Level
from hocket.core.segments import segment_mean

Columns = Mapping[str, Tensor]
"""What a loss reads beside log-probs, by name, `[K]` each; `example` is the number of a token's example."""


class TokenLoss(Protocol):
    """A loss that is a sum over tokens.

    Attributes:
        reads: the columns that every example must have. couples: the smallest unit that must not be split.
    """

    reads: ClassVar[tuple[str, ...]]
    couples: ClassVar[Level]

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        """The loss of each token, `[K]`, from its log-prob `[K]` in nats."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """-w log p: imitation of the targets, each with its weight."""

    reads: ClassVar[tuple[str, ...]] = ("weights",)
    couples: ClassVar[Level] = Level.DECISION

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        return -columns["weights"] * logp


@dataclass(frozen=True)
class ImportanceSampling:
    """-(p / q) A, with the log-prob `logprobs` under which the token was sampled: REINFORCE for samples of others."""

    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages")
    couples: ClassVar[Level] = Level.DECISION

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
    couples: ClassVar[Level] = Level.DECISION

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        return _clipped(_ratio(logp, columns), columns["advantages"], self.low, self.high)


@dataclass(frozen=True)
class ClippedSequenceRatio:
    """GSPO-token (Zheng et al. 2025, equation 13): PPO's loss with the ratio of the whole example.

    Its value is the geometric mean of the ratios where `sequence_ratio_mask` is not 0, and its gradient that of the
    token's own log-prob.

    Attributes:
        low, high: the bounds of the ratio; the paper's.
    """

    low: float = 1 - 3e-4
    high: float = 1 + 4e-4
    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages", "sequence_ratio_mask")
    couples: ClassVar[Level] = Level.TRAJECTORY

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        example, inside = columns["example"], columns["sequence_ratio_mask"] != 0
        gap = (logp.detach() - columns["logprobs"])[inside]
        mean = segment_mean(gap, example[inside], int(example.max()) + 1)[example]
        ratio = (mean.to(logp.dtype) + logp - logp.detach()).exp()
        return _clipped(ratio, columns["advantages"], self.low, self.high)


@dataclass(frozen=True)
class ClippedWeight:
    """CISPO (MiniMax 2025, equation 4): -sg(clip(r)) A log p; a clipped token keeps its gradient.

    Attributes:
        low, high: the bounds of the ratio.
    """

    low: float = 0.8
    high: float = 1.2
    reads: ClassVar[tuple[str, ...]] = ("logprobs", "advantages")
    couples: ClassVar[Level] = Level.DECISION

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
    couples: ClassVar[Level] = Level.DECISION

    def __call__(self, logp: Tensor, columns: Columns) -> Tensor:
        return -columns["advantages"] * logp + 0.5 * self.beta * (logp - columns["logprobs"]) ** 2


SequenceLoss = Callable[[Sequence[Tensor]], Tensor]
"""A loss of whole examples: from the log-probs of each, `[L]`, to a scalar."""


def _ratio(logp: Tensor, columns: Columns) -> Tensor:
    return (logp - columns["logprobs"]).exp()


def _clipped(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    return -(ratio * advantage).minimum(ratio.clamp(low, high) * advantage)


def _check_bounds(low: float, high: float) -> None:
    if not 0 <= low <= 1 <= high:
        raise ValueError(f"the ratio's bounds must be around 1, not {low} and {high}")

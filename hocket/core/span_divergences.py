"""Divergences between models of different vocabularies, over spans of text that both tokenize (GOLD, TRL 1.16).

A span is the least text at whose end tokens of both models end. Its distribution is the model's at the span's last
token, times the probability of the span's earlier tokens: of what the span would end with, together with how it began.
Where a span is one token of the student, `86`, and two of the teacher, `8` and `6`, that holds `86` against `6`, so the
student is led to write `6`. `SharedTokens(merged="text")` compares the probabilities of such spans' texts instead.

Tokens that both vocabularies spell alike are compared directly, all others by rank (universal logit distillation,
arXiv 2402.12030): the sorted probabilities of one model with those of the other.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.core.divergences import Divergence

Merged = Literal["last", "text"]

LEAST = 1e-8
"""The least probability whose logarithm is taken."""


@dataclass(frozen=True)
class SpanDivergence(Divergence):
    """A divergence over spans. Attribute `ends`: whether the ends of answers are compared as a span of their own."""

    ends: bool = True

    @abstractmethod
    def between(self, policy: Tensor, reference: Tensor, shared: tuple[Tensor, Tensor]) -> Tensor:
        """The divergence of each of G spans, `[G]`, from probabilities `[G, V]` and `[G, W]`.

        `shared`: the tokens that are in both vocabularies, `[M]` of the policy and `[M]` of the reference.
        """

    def between_texts(self, policy: Tensor, reference: Tensor) -> Tensor | None:
        """The divergence of spans by the probabilities of their texts, `[G]` each, where it is used for such spans.

        They are those that are not one token of both, spelt alike.
        """
        return None

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        tokens = torch.arange(policy.shape[-1], device=policy.device)
        return self.between(policy.exp(), reference.exp(), (tokens, tokens))


@dataclass(frozen=True)
class SortedProbabilities(SpanDivergence):
    """sum_j |p_(j) - q_(j)| over the probabilities in descending order, with zeros where one vocabulary is smaller."""

    def between(self, policy: Tensor, reference: Tensor, shared: tuple[Tensor, Tensor]) -> Tensor:
        return _by_rank(policy, reference)


@dataclass(frozen=True)
class SharedTokens(SpanDivergence):
    """shared D(p, q over the tokens of both) + others sum_j |p_(j) - q_(j)| over all other tokens, by rank.

    D is the generalised Jensen-Shannon divergence of `hocket.core.divergences`, of probabilities that need not sum to
    one; those below 1e-8 count as 1e-8.

    Attributes:
        beta: 0 is the forward, 1 the reverse KL.
        shared, others: the weights; None is the share of the reference's vocabulary that both have, and the rest.
        merged: what spans of several tokens are compared by: `last`, as above; `text`, by D of two outcomes, the span's
            text and all else, at the weight `shared + others`.
    """

    beta: float = 0.5
    shared: float | None = None
    others: float | None = None
    merged: Merged = "last"

    def __post_init__(self) -> None:
        if self.merged not in get_args(Merged):
            raise ValueError(f"merged must be last or text, not {self.merged!r}")
        if not 0 <= self.beta <= 1:
            raise ValueError(f"beta of SharedTokens must lie in [0, 1], not {self.beta}")
        if (self.shared is None) != (self.others is None) or min(self.shared or 0.0, self.others or 0.0) < 0:
            raise ValueError(
                f"shared and others must both be None or both at least 0, not {self.shared} and {self.others}"
            )

    def between(self, policy: Tensor, reference: Tensor, shared: tuple[Tensor, Tensor]) -> Tensor:
        mine, theirs = shared
        share = len(theirs) / reference.shape[-1]
        weights = (share, 1 - share) if self.shared is None or self.others is None else (self.shared, self.others)
        alike = self._jensen_shannon(policy[:, mine], reference[:, theirs])
        rest = _without(policy, mine), _without(reference, theirs)
        if not all(part.shape[-1] for part in rest):
            return weights[0] * alike
        return weights[0] * alike + weights[1] * _by_rank(*rest)

    def between_texts(self, policy: Tensor, reference: Tensor) -> Tensor | None:
        if self.merged == "last":
            return None
        weight = 1.0 if self.shared is None or self.others is None else self.shared + self.others
        first, second = (torch.stack([text, 1 - text], -1) for text in (policy, reference))
        return weight * self._jensen_shannon(first, second)

    def _jensen_shannon(self, policy: Tensor, reference: Tensor) -> Tensor:
        p, q = policy.clamp(min=LEAST).log(), reference.clamp(min=LEAST).log()
        if self.beta in (0, 1):
            first, second = (q, p) if self.beta == 0 else (p, q)
            return (first.exp() * (first - second)).sum(-1)
        mixture = torch.logaddexp(p + _log(1 - self.beta, p), q + _log(self.beta, p))
        from_reference, from_policy = ((logp.exp() * (logp - mixture)).sum(-1) for logp in (q, p))
        return self.beta * from_reference + (1 - self.beta) * from_policy


def _log(share: float, like: Tensor) -> Tensor:
    return torch.tensor(share, dtype=like.dtype, device=like.device).log()


def _without(probabilities: Tensor, tokens: Tensor) -> Tensor:
    others = torch.ones(probabilities.shape[-1], dtype=torch.bool, device=probabilities.device)
    others[tokens] = False
    return probabilities[:, others]


def _by_rank(policy: Tensor, reference: Tensor) -> Tensor:
    """The sum of differences of sorted probabilities, `[G]`."""
    size = max(policy.shape[-1], reference.shape[-1])
    first, second = (
        F.pad(values.sort(-1, descending=True).values, (0, size - values.shape[-1])) for values in (policy, reference)
    )
    return (first - second).abs().sum(-1)

"""Divergences between a policy and its reference over all actions at a decision, and a policy that computes them.

p is the policy (the student), q the reference (the teacher); everything is in nats. A divergence has a gradient for p
alone.

    JensenShannon(b)    b KL(q || m) + (1 - b) KL(p || m), m = (1 - b) p + b q     Agarwal et al., arXiv 2306.13649
                        b = 0 is the forward KL(q || p), b = 1 the reverse KL(p || q)
    SkewedForward(a)    KL(q || a q + (1 - a) p)                                     Ko et al., arXiv 2402.03898
    SkewedReverse(a)    KL(p || a p + (1 - a) q)
    Alpha(a)            (1 - sum q^a p^(1 - a)) / (a (1 - a)): forward KL at a = 1, reverse KL at a = 0 (Amari 1985)
    KLMixture(w)        w KL(q || p) + (1 - w) KL(p || q)                            NeMo-RL, kl_type mixed
    TopActions(of, k)   `of` between the distributions over the k likeliest actions and, with `rest`, all others as one

With b in (0, 1) the Jensen-Shannon form is bounded; divided by b or 1 - b it tends to the KLs at its ends.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.policy_parts import PolicyPart


@dataclass(frozen=True)
class Divergence(ABC):
    """A divergence between two distributions over the same actions."""

    @abstractmethod
    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        """The divergence at each of K places, `[K]`, from log-probs `[K, V]`.

        An action of probability 0 (log-prob -inf) under the distribution that is averaged over adds nothing.
        """


@dataclass(frozen=True)
class JensenShannon(Divergence):
    """The generalised Jensen-Shannon divergence (see the top of this module).

    Attributes:
        beta: in [0, 1]; 0 is KL(reference || policy), which covers, 1 is KL(policy || reference), which seeks modes.
    """

    beta: float = 0.5

    def __post_init__(self) -> None:
        _check(self, "beta", self.beta)

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        if self.beta == 0:
            return _kl(reference, policy)
        if self.beta == 1:
            return _kl(policy, reference)
        mixture = _mixture(policy, reference, self.beta)
        return self.beta * _kl(reference, mixture) + (1 - self.beta) * _kl(policy, mixture)


@dataclass(frozen=True)
class SkewedForward(Divergence):
    """KL(reference || alpha reference + (1 - alpha) policy): never above -log alpha (arXiv 2402.03898, eq. 4).

    Attributes:
        alpha: the reference's share in the mixture, in [0, 1); 0 is the forward KL.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        _check(self, "alpha", self.alpha, below=True)

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        return _kl(reference, policy if self.alpha == 0 else _mixture(policy, reference, self.alpha))


@dataclass(frozen=True)
class SkewedReverse(Divergence):
    """KL(policy || alpha policy + (1 - alpha) reference): never above -log alpha (arXiv 2402.03898, eq. 5).

    Attributes:
        alpha: the policy's share in the mixture, in [0, 1); 0 is the reverse KL.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        _check(self, "alpha", self.alpha, below=True)

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        return _kl(policy, reference if self.alpha == 0 else _mixture(reference, policy, self.alpha))


@dataclass(frozen=True)
class Alpha(Divergence):
    """Amari's alpha-divergence; alpha = 1 is the forward KL, 0 the reverse KL.

    Attributes:
        alpha: the reference's exponent, in [0, 1].
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        _check(self, "alpha", self.alpha)

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        if self.alpha in (0, 1):
            return JensenShannon(1 - self.alpha)(policy, reference)
        affinity = _logsumexp(self.alpha * reference + (1 - self.alpha) * policy).squeeze(-1)
        return -affinity.expm1() / (self.alpha * (1 - self.alpha))


@dataclass(frozen=True)
class KLMixture(Divergence):
    """w KL(reference || policy) + (1 - w) KL(policy || reference).

    Attributes:
        weight: w, in [0, 1].
    """

    weight: float = 0.5

    def __post_init__(self) -> None:
        _check(self, "weight", self.weight)

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        return self.weight * _kl(reference, policy) + (1 - self.weight) * _kl(policy, reference)


@dataclass(frozen=True)
class TopActions(Divergence):
    """A divergence between the distributions over the `count` likeliest actions of one of the two.

    With `rest` all other actions are one more action, so the masses outside are compared as well. Without it both
    distributions are renormalised, and nothing is learnt of how much probability the chosen actions have together.

    Attributes:
        of: the divergence. count: how many actions; all of them when there are no more.
        by: whose likeliest actions they are.
    """

    of: Divergence = field(default_factory=JensenShannon)
    count: int = 100
    by: Literal["policy", "reference"] = "reference"
    rest: bool = True

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count must be at least 1, not {self.count}")
        if self.by not in ("policy", "reference"):
            raise ValueError(f"by is {self.by!r}; choose from policy, reference")

    def __call__(self, policy: Tensor, reference: Tensor) -> Tensor:
        if self.count >= policy.shape[-1]:
            return self.of(policy, reference)
        chosen = (policy if self.by == "policy" else reference).detach().topk(self.count, -1).indices
        return self.of(self._over(policy, chosen), self._over(reference, chosen))

    def _over(self, logp: Tensor, chosen: Tensor) -> Tensor:
        top = logp.gather(-1, chosen)
        if not self.rest:
            return top.log_softmax(-1)
        # The mass of the others is summed, not taken from 1, which would lose it to rounding.
        others = logp.scatter(-1, chosen, -math.inf)
        return torch.cat([top, _logsumexp(others)], -1)


def _kl(first: Tensor, second: Tensor) -> Tensor:
    """KL(first || second), `[K]`, from log-probs `[K, V]`; infinite where `second` lacks an action of `first`."""
    present = ~torch.isneginf(first)
    difference = torch.where(present, first - second.masked_fill(~present, 0.0), 0.0)
    return (first.exp() * difference).sum(-1)


def _mixture(first: Tensor, second: Tensor, share: float) -> Tensor:
    """log((1 - share) first + share second), of log-probs; -inf without a gradient where neither has any mass."""
    none = torch.isneginf(first) & torch.isneginf(second)
    parts = [
        first.masked_fill(none, 0.0) + math.log1p(-share),
        second.masked_fill(none, 0.0) + math.log(share),
    ]
    return torch.logaddexp(*parts).masked_fill(none, -math.inf)


def _logsumexp(values: Tensor) -> Tensor:
    """Over the last dimension, which stays; -inf with no gradient where all are -inf."""
    empty = torch.isneginf(values).all(-1, keepdim=True)
    return values.masked_fill(empty, 0.0).logsumexp(-1, keepdim=True).masked_fill(empty, -math.inf)


def _check(where: Divergence, name: str, value: float, *, below: bool = False) -> None:
    if not 0 <= value <= 1 or (below and value == 1):
        raise ValueError(f"{name} of {type(where).__name__} must lie in [0, 1{')' if below else ']'}, not {value}")


@runtime_checkable
class ComparesDistributions(Protocol):
    """A policy that evaluates `Quantity.DIVERGENCE`, once it is set."""

    divergence: Divergence | None


@dataclass(frozen=True)
class DivergencePart(PolicyPart):
    """The divergence that a policy evaluates as `Quantity.DIVERGENCE`; a policy has one."""

    needed: ClassVar[str] = "a divergence over all actions"
    holders: ClassVar[str] = "language models and tabular policies"
    advice: ClassVar[str] = "use a recipe that reads log-probs of sampled actions, such as on-policy-distillation"

    divergence: Divergence

    def fits(self, policy: Any) -> bool:
        return isinstance(policy, ComparesDistributions)

    def install(self, policy: Any) -> None:
        if policy.divergence not in (None, self.divergence):
            raise ConfigurationError(
                f"policy {policy.name!r} would be compared by two divergences, {policy.divergence} and "
                f"{self.divergence}; a recipe has one: leave one of the two losses out"
            )
        policy.divergence = self.divergence


@runtime_checkable
class ViewsReference(ComparesDistributions, Protocol):
    """A policy whose reference may read other prompts than it does."""

    reference_view: Callable[[Batch], Batch] | None


@dataclass(frozen=True)
class ViewedDivergencePart(DivergencePart):
    """The divergence from what the reference says behind other prompts.

    Attributes:
        view: the batch as the reference reads it; its decisions are the same.
    """

    holders: ClassVar[str] = "language models"

    view: Callable[[Batch], Batch]

    def fits(self, policy: Any) -> bool:
        return isinstance(policy, ViewsReference)

    def install(self, policy: Any) -> None:
        super().install(policy)
        policy.reference_view = self.view

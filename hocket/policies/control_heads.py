"""Action distributions of control networks, as plain functions of tensors.

Rows B are decisions. At temperature t a head is its density to the power 1/t, renormalised: logits divide by t, and a
Gaussian's variance multiplies by t. All results are in nats and differentiable in the head's parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

NEVER = -1e9
"""The logit of an action that is not allowed: its probability is 0 exactly, and no gradient passes."""


class Head(Protocol):
    """A distribution over actions for each of B decisions."""

    def tempered(self, temperature: Tensor) -> Head:
        """The same head at another temperature, `[B]`."""
        ...

    def logp(self, action: Tensor) -> Tensor:
        """Log-prob (or log-density) of `action`, `[B]`."""
        ...

    def entropy(self) -> Tensor:
        """`[B]`; differential entropy for densities."""
        ...

    def kl(self, other: Self) -> Tensor:
        """KL(self || other) over all actions, `[B]`."""
        ...

    def mode(self) -> Tensor:
        """The most likely action."""
        ...

    def draw(self, uniforms: Tensor) -> Tensor:
        """The action at quantiles `uniforms`, `[B, D]` in (0, 1): D = 1 for a categorical, A for a Gaussian."""
        ...


@dataclass(frozen=True)
class Categorical:
    """One of A actions. `logits` `[B, A]` need not be normalised; actions are `[B]` long."""

    logits: Tensor

    def tempered(self, temperature: Tensor) -> Categorical:
        return Categorical(self.logits / temperature[:, None])

    def _all(self) -> Tensor:
        return torch.log_softmax(self.logits, -1)

    def logp(self, action: Tensor) -> Tensor:
        return self._all().gather(-1, action.long()[:, None]).squeeze(-1)

    def entropy(self) -> Tensor:
        logp = self._all()
        return -(logp.exp() * logp).sum(-1)

    def kl(self, other: Categorical) -> Tensor:
        logp = self._all()
        return (logp.exp() * (logp - other._all())).sum(-1)

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def draw(self, uniforms: Tensor) -> Tensor:
        """Inverse of the cumulative distribution in float64: the number of actions whose cumulative mass is below u."""
        mass = torch.softmax(self.logits.double(), -1).cumsum(-1)
        return (uniforms.double() * mass[:, -1:] >= mass).sum(-1).clamp(max=self.logits.shape[-1] - 1)


@dataclass(frozen=True)
class DiagonalGaussian:
    """Independent normals. `mean` and `log_std` `[B, A]`; actions are `[B, A]` float."""

    mean: Tensor
    log_std: Tensor

    def tempered(self, temperature: Tensor) -> DiagonalGaussian:
        return DiagonalGaussian(self.mean, self.log_std + 0.5 * temperature.log()[:, None])

    def logp(self, action: Tensor) -> Tensor:
        scaled = (action - self.mean) * (-self.log_std).exp()
        return (-0.5 * scaled.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, other: DiagonalGaussian) -> Tensor:
        ratio = (2 * (self.log_std - other.log_std)).exp()
        distance = ((self.mean - other.mean) * (-other.log_std).exp()).square()
        return 0.5 * (ratio + distance - 1 - ratio.log()).sum(-1)

    def mode(self) -> Tensor:
        return self.mean

    def draw(self, uniforms: Tensor) -> Tensor:
        """mean + std * Phi^-1(u) per dimension."""
        normal: Tensor = torch.special.ndtri(uniforms.double())
        return self.mean + self.log_std.exp() * normal.to(self.mean.dtype)

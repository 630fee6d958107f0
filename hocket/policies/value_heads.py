"""Action distributions of policies with action values; see `hocket.policies.control_heads`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.policies.control_heads import NEVER, Categorical, DiagonalGaussian

EDGE = 1 - 2.0**-24
"""The largest float32 number below 1. At 1 itself the area tangent would be infinite."""


@dataclass(frozen=True)
class Greedy(Categorical):
    """The best of A actions, or with a probability epsilon any; `logits` are the logarithms of probabilities.

    Attributes:
        values: action values, `[B, A]`.
    """

    values: Tensor

    @classmethod
    def of(cls, values: Tensor, epsilon: float, allowed: Tensor | None) -> Self:
        """From action values `[B, A]`, of which only the `allowed` ones are chosen."""
        with torch.no_grad():
            possible = torch.ones_like(values, dtype=torch.bool) if allowed is None else allowed
            best = values.masked_fill(~possible, NEVER).argmax(1, keepdim=True)
            share = epsilon * possible / possible.sum(1, keepdim=True)
            share = share.scatter_add(1, best, torch.full_like(share[:, :1], 1 - epsilon))
            logits = torch.where(share > 0, share.log(), torch.full_like(share, NEVER))
        return cls(logits, values)

    def tempered(self, temperature: Tensor) -> Greedy:
        return Greedy(self.logits / temperature[:, None], self.values)


@dataclass(frozen=True)
class SquashedGaussian:
    """`tanh` of independent normals; actions are `[B, A]` float in (-1, 1).

    At temperature t the normals' variance multiplies by t. Actions are at most `EDGE` from 0, which is how far float32
    reaches, and recorded ones at the ends of the range count as there.
    """

    mean: Tensor
    log_std: Tensor

    @classmethod
    def of(cls, outputs: Tensor) -> Self:
        """From an actor's outputs `[B, 2 A]`; log standard deviations are kept within [-20, 2]."""
        mean, log_std = outputs.chunk(2, -1)
        return cls(mean, log_std.clamp(-20.0, 2.0))

    @property
    def normal(self) -> DiagonalGaussian:
        """What is squashed."""
        return DiagonalGaussian(self.mean, self.log_std)

    def tempered(self, temperature: Tensor) -> SquashedGaussian:
        return SquashedGaussian(self.mean, self.log_std + 0.5 * temperature.log()[:, None])

    def logp(self, action: Tensor) -> Tensor:
        inside = action.clamp(-EDGE, EDGE)
        slope = torch.log1p(inside) + torch.log1p(-inside)
        return self.normal.logp(torch.atanh(inside)) - slope.sum(-1)

    def reached(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The actions at standard normal numbers `[B, A]`, differentiable, and their log-probs `[B]`."""
        before = self.mean + self.log_std.exp() * noise
        logp = (-0.5 * noise.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        # log(1 - tanh(u)^2), which stays exact where tanh(u) rounds to 1.
        slope = 2 * (math.log(2) - before - functional.softplus(-2 * before))
        return torch.tanh(before), logp - slope.sum(-1)

    def entropy(self) -> Tensor:
        raise ConfigurationError(
            "a squashed Gaussian has no entropy in closed form; drop the entropy bonus, or use hocket.objectives."
            "TemperatureLoss"
        )

    def kl(self, other: SquashedGaussian) -> Tensor:
        return self.normal.kl(other.normal)  # Squashing both leaves it as it is.

    def mode(self) -> Tensor:
        """The squashed mean, which the field takes for the mode."""
        return torch.tanh(self.mean).clamp(-EDGE, EDGE)

    def draw(self, uniforms: Tensor) -> Tensor:
        return torch.tanh(self.normal.draw(uniforms)).clamp(-EDGE, EDGE)


@dataclass(frozen=True)
class NoisyAction(DiagonalGaussian):
    """A deterministic action `tanh(outputs)` with noise, recorded before environments clip it to their range."""

    @classmethod
    def of(cls, outputs: Tensor, noise: float) -> Self:
        """With noise of this standard deviation."""
        mean = torch.tanh(outputs)
        return cls(mean, torch.full_like(mean, math.log(noise)))


@dataclass(frozen=True)
class ChosenCandidate:
    """The best of several samples, as a critic finds them: a distribution without a density, whose log-probs are 0.

    Attributes:
        usual: the standard normals of greedy play, `[D]`. choose: the actions `[B, A]` for normals `[B, D]`. rows: B.
    """

    usual: Tensor
    choose: Callable[[Tensor], Tensor]
    rows: int

    def tempered(self, temperature: Tensor) -> ChosenCandidate:
        return self

    def logp(self, action: Tensor) -> Tensor:
        return torch.zeros_like(action[:, 0])

    def entropy(self) -> Tensor:
        raise ConfigurationError(
            "actions that a critic chose among samples have no density, and so no entropy; drop the entropy bonus"
        )

    def kl(self, other: ChosenCandidate) -> Tensor:
        raise ConfigurationError(
            "actions that a critic chose among samples have no density, and so no KL; drop the KL term"
        )

    def mode(self) -> Tensor:
        """The best of samples whose noise is the same in every state."""
        return self.choose(self.usual.expand(self.rows, -1))

    def draw(self, uniforms: Tensor) -> Tensor:
        normals: Tensor = torch.special.ndtri(uniforms.double())
        return self.choose(normals.float())


@dataclass(frozen=True)
class UniformBox:
    """Uniform in [-1, 1]^A; `best` `[B, A]` is what greedy play takes."""

    best: Tensor

    def tempered(self, temperature: Tensor) -> UniformBox:
        return self

    def logp(self, action: Tensor) -> Tensor:
        return torch.full_like(self.best[:, 0], -math.log(2) * self.best.shape[-1])

    def entropy(self) -> Tensor:
        return torch.full_like(self.best[:, 0], math.log(2) * self.best.shape[-1])

    def kl(self, other: UniformBox) -> Tensor:
        return torch.zeros_like(self.best[:, 0])

    def mode(self) -> Tensor:
        return self.best

    def draw(self, uniforms: Tensor) -> Tensor:
        return (2 * uniforms - 1).to(self.best.dtype)

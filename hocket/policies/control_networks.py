"""Small networks for control, initialised from a key: bodies without memory, with one, and for grids."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.keys import Key
from hocket.core.worlds import Ranges

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class Perceptron(nn.Module):
    """Linear layers with an activation between them: `[B, sizes[0]]` to `[B, sizes[-1]]`.

    Weights are orthogonal with gain sqrt(2), the last layer's with gain `last_gain`, biases are 0 (the initialisation
    that Andrychowicz et al. 2021, arXiv 2006.05990, recommend for policies: a small last layer starts near uniform).
    """

    def __init__(
        self, sizes: Sequence[int], *, last_gain: float, key: Key, activation: Literal["tanh", "relu"] = "tanh"
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        pairs = list(itertools.pairwise(sizes))
        # nn.Linear would draw its initial weights from the global generator.
        self.weights = nn.ParameterList([torch.zeros(wide, narrow) for narrow, wide in pairs])
        self.biases = nn.ParameterList([torch.zeros(wide) for _, wide in pairs])
        for layer, weight in enumerate(self.weights):
            gain = last_gain if layer == len(pairs) - 1 else math.sqrt(2)
            nn.init.orthogonal_(weight, gain, generator=key.derive("layer", layer).torch())

    def forward(self, x: Tensor) -> Tensor:
        # A ParameterList looks up each of its own by name, which took a third of the whole.
        weights, biases = (cast(dict[str, Tensor], held._parameters) for held in (self.weights, self.biases))
        *inner, last = zip(weights.values(), biases.values(), strict=True)
        for weight, bias in inner:
            x = self.activation(functional.linear(x, weight, bias))
        return functional.linear(x, *last)


LARGEST = 10.0
"""Where normalised numbers are cut off, in standard deviations: as Stable-Baselines3 and the MuJoCo baselines do."""


class Normaliser(nn.Module):
    """Rows `[.., O]` less their running mean, over their running deviation, cut off at +-10; as they are before any.

    Mean and sum of squares are those of all rows ever seen, batch by batch, exact in any split (Chan et al. 1983). They
    change by `observe` alone, so whoever reads between two calls reads the same numbers.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def forward(self, rows: Tensor) -> Tensor:
        return ((rows - self.shift) * self.scale).clamp(-LARGEST, LARGEST)

    @torch.no_grad()
    def observe(self, rows: Tensor) -> None:
        """Counts rows `[B, O]`; nothing happens without any. Numbers that never change pass less their mean alone."""
        if not len(rows):
            return
        values = rows.double()
        fresh, mean = float(len(values)), values.mean(0)
        gap, total = mean - self.mean, float(self.count) + fresh
        self.squares += (values - mean).square().sum(0) + gap.square() * float(self.count) * fresh / total
        self.mean += gap * fresh / total
        self.count.fill_(total)
        variance = self.squares / total
        self.shift.copy_(self.mean)
        self.scale.copy_(torch.where(variance > 1e-12, variance.clamp(min=1e-12).rsqrt(), torch.ones_like(variance)))


class Scaler(nn.Module):
    """Rows `[.., O]` with the ends of each number's range as 0 and 1; beyond what `ranges` are of, as they are."""

    shift: Tensor
    scale: Tensor

    def __init__(self, size: int, ranges: Ranges) -> None:
        super().__init__()
        shift, scale, place = torch.zeros(size), torch.ones(size), 0
        for count, low, high in ranges:
            shift[place : place + count], scale[place : place + count] = low, 1 / (high - low)
            place += count
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.shift) * self.scale


def reader(size: int, ranges: Ranges, *, normalise: bool) -> Normaliser | Scaler | None:
    """What stands between `size` numbers and the networks that read them; None where they are read as they are."""
    if normalise:
        return Normaliser(size)
    return Scaler(size, ranges) if ranges else None


class ActorCritic(nn.Module):
    """An actor, a state-independent log standard deviation for continuous actions, and a critic when required.

    `seen` scales what agents see by its ranges, where it has any, or normalises it where the policy is asked to;
    `whole` does so with the joint state. `beliefs` is what sums up all that was seen.
    """

    critic: nn.Module | None
    log_std: nn.Parameter | None
    seen: Normaliser | Scaler | None
    whole: Normaliser | Scaler | None
    beliefs: nn.Module | None

    def __init__(self, actor: nn.Module, log_std: Tensor | None) -> None:
        super().__init__()
        self.actor = actor
        self.log_std = None if log_std is None else nn.Parameter(log_std)
        self.critic = None
        self.seen = self.whole = self.beliefs = None

    @property
    def scalers(self) -> list[Scaler]:
        """What scales by ranges. A frozen copy shares it, for ranges are facts of what is seen."""
        return [scaler for scaler in (self.seen, self.whole) if isinstance(scaler, Scaler)]

    @property
    def scaled(self) -> bool:
        """Whether anything is scaled by its range."""
        return any(bool((scaler.scale != 1).any()) for scaler in self.scalers)

    def read_plainly(self) -> bool:
        """Reads all as it is from now on, as before anything was scaled; whether that is a change."""
        for scaler in self.scalers:
            scaler.shift.zero_()
            scaler.scale.fill_(1.0)
        return bool(self.scalers)

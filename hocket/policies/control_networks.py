"""Small perceptrons for control, initialised from a key."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.keys import Key


class Perceptron(nn.Module):
    """Linear layers with tanh between them: `[B, sizes[0]]` to `[B, sizes[-1]]`.

    Weights are orthogonal with gain sqrt(2), the last layer's with gain `last_gain`, biases are 0 (the initialisation
    that Andrychowicz et al. 2021, arXiv 2006.05990, recommend for policies: a small last layer starts near uniform).
    """

    def __init__(self, sizes: Sequence[int], *, last_gain: float, key: Key) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        # nn.Linear would draw its initial weights from the global generator.
        self.weights = nn.ParameterList([torch.zeros(wide, narrow) for narrow, wide in pairs])
        self.biases = nn.ParameterList([torch.zeros(wide) for _, wide in pairs])
        for layer, weight in enumerate(self.weights):
            gain = last_gain if layer == len(pairs) - 1 else math.sqrt(2)
            nn.init.orthogonal_(weight, gain, generator=key.derive("layer", layer).torch())

    def forward(self, x: Tensor) -> Tensor:
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = functional.linear(x, weight, bias)
            if layer < last:
                x = torch.tanh(x)
        return x


class ActorCritic(nn.Module):
    """An actor, a state-independent log standard deviation for continuous actions, and a critic when required."""

    critic: Perceptron | None
    log_std: nn.Parameter | None

    def __init__(self, actor: Perceptron, log_std: Tensor | None) -> None:
        super().__init__()
        self.actor = actor
        self.log_std = None if log_std is None else nn.Parameter(log_std)
        self.critic = None

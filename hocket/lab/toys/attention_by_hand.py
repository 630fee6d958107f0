"""The parts of a decision transformer in float64 numpy, for claims about what its attention computes."""

from __future__ import annotations

import numpy as np
from torch import nn

from hocket.lab.toys.drawn_rows import Array
from hocket.policies.control import ControlPolicy


def held(policy: ControlPolicy, name: str) -> Array:
    """A weight of the policy's actor."""
    weight: Array = policy.module.actor.state_dict()[name].double().numpy()
    return weight


def linear(policy: ControlPolicy, name: str, x: Array) -> Array:
    """A linear layer, `[L, I]` to `[L, O]`."""
    outputs: Array = x @ held(policy, f"{name}.weight").T + held(policy, f"{name}.bias")
    return outputs


def normal(policy: ControlPolicy, name: str, x: Array) -> Array:
    """A layer norm over the last axis."""
    gap = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((gap**2).mean(-1, keepdims=True) + nn.LayerNorm(1).eps)
    scaled: Array = gap / spread * held(policy, f"{name}.weight") + held(policy, f"{name}.bias")
    return scaled


def block(policy: ControlPolicy, name: str, x: Array) -> Array:
    """A block with one causal head, `[L, D]`; widths below 32 have no more."""
    query, keys, values = np.split(linear(policy, f"{name}joint", normal(policy, f"{name}first", x)), 3, 1)
    scores = query @ keys.T / np.sqrt(x.shape[1])
    weight = np.exp(np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf))
    x = x + linear(policy, f"{name}out", weight / weight.sum(1, keepdims=True) @ values)
    wide = np.maximum(linear(policy, f"{name}wide", normal(policy, f"{name}second", x)), 0)
    after: Array = x + linear(policy, f"{name}narrow", wide)
    return after

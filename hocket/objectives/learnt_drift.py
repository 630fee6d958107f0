"""A learnt drift: a small network found by evolution strategies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

FEATURES = 8
"""Inputs of the network: 1-r, (1-r)^2, log r and (log r)^2, and the same times A."""


MARGIN = 1e-6
"""Subtracted from the network's output, so that the drift is flat around r = 1."""


def drift_features(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """`[..., 8]` from `[...]`; all 0 at r = 1 (Lu et al. 2022, arXiv 2210.05639, section 4)."""
    away = -log_ratio.expm1()
    plain = torch.stack([away, away.square(), log_ratio, log_ratio.square()], -1)
    return torch.cat([plain, plain * advantage[..., None]], -1)


def network_drift(log_ratio: Tensor, advantage: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    """f = relu(outer . tanh(features inner) - 1e-6), shape `[..., K]` (Learnt Policy Optimisation, arXiv 2210.05639).

    Without biases the network is 0 at r = 1, so f is 0 there, and by the margin also around it. So the conditions of a
    drift hold for all weights. `inner` is `[..., 8, H]`, `outer` `[..., H]`, with leading axes as in `log_ratio`.
    """
    hidden = (drift_features(log_ratio, advantage) @ inner).tanh()
    return ((hidden * outer[..., None, :]).sum(-1) - MARGIN).relu()


def write_drift(file: Path, inner: Tensor, outer: Tensor, **about: object) -> None:
    """Writes parameters in the format of `LearntDrift`, with metadata `about` their training."""
    rounded: dict[str, Sequence[object]] = {
        "inner": [[round(value, 4) for value in row] for row in inner.tolist()],
        "outer": [round(value, 4) for value in outer.tolist()],
    }
    file.write_text(json.dumps({**about, **rounded}, indent=1) + "\n")

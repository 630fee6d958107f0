"""Toys of several claims: regressions."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.keys import Key

KEY = Key.of(0).derive("checks", "regressions")


REWARDS = (1.0, 0.0, 0.5, 0.2, 0.9)


def softmax(*logits: float) -> Tensor:
    """Log-probs."""
    return torch.log_softmax(torch.tensor(logits, dtype=torch.float64), 0)


REFERENCE = softmax(0.3, 1.2, -0.4, 0.0, -1.0)
STALE = softmax(-1.5, 0.2, 0.9, 1.4, -0.8)

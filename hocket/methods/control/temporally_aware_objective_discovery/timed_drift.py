"""A learnt drift that knows how much of training is done."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.objectives.learnt_drift import FEATURES, MARGIN, drift_features

TIMED_FEATURES = 2 * FEATURES
"""Inputs of the network: those of a learnt drift, and the same times n / N."""


def timed_drift(log_ratio: Tensor, advantage: Tensor, progress: float, inner: Tensor, outer: Tensor) -> Tensor:
    """f = relu(outer . tanh([x, progress x] inner) - 1e-6), shape `[..., K]`, x as in `network_drift`.

    Since x is 0 at r = 1, whatever the time, f is a drift at all times (TA-LPO, Jackson et al., arXiv 2402.05828,
    equation 10). `inner` is `[..., 16, H]`, `outer` `[..., H]`, leading axes as in `log_ratio`; `progress` in [0, 1].
    """
    plain = drift_features(log_ratio, advantage)
    hidden = (torch.cat([plain, progress * plain], -1) @ inner).tanh()
    return ((hidden * outer[..., None, :]).sum(-1) - MARGIN).relu()


@functools.cache
def read_timed_drift(file: str) -> tuple[Tensor, Tensor]:
    """`inner` `[16, H]` and `outer` `[H]`, float64, as `write_drift` wrote them.

    Raises:
        ConfigurationError: when the file is missing, damaged, or of a network that is not told the time.
    """
    try:
        found = json.loads(Path(file).read_text())
        inner = torch.tensor(found["inner"], dtype=torch.float64)
        outer = torch.tensor(found["outer"], dtype=torch.float64)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{file} holds no timed drift ({error}); python -m "
            "hocket.methods.control.temporally_aware_objective_discovery.lifetimes makes one"
        ) from error
    if inner.ndim != 2 or inner.shape != (TIMED_FEATURES, len(outer)):
        raise ConfigurationError(f"{file}: inner must be {TIMED_FEATURES} rows of as many numbers as outer has")
    return inner, outer

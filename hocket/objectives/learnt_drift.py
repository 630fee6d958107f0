"""A drift that was learnt: a small network found by evolution strategies."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from hocket.errors import ConfigurationError
from hocket.objectives.drift import Drift

FEATURES = 8
"""Inputs of the network: 1-r, (1-r)^2, log r and (log r)^2, and the same times A."""

SHIPPED = Path(__file__).with_name("learnt_drift.json")
"""The parameters that `python -m hocket.lab.discover` found."""

MARGIN = 1e-6
"""What is taken off the network's output, so that the drift is flat around r = 1."""


def drift_features(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """`[..., 8]` from `[...]`; all 0 at r = 1 (Lu et al. 2022, arXiv 2210.05639, section 4)."""
    away = -log_ratio.expm1()
    plain = torch.stack([away, away.square(), log_ratio, log_ratio.square()], -1)
    return torch.cat([plain, plain * advantage[..., None]], -1)


def network_drift(log_ratio: Tensor, advantage: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    """f = relu(outer . tanh(features inner) - 1e-6), shape `[..., K]` (Learnt Policy Optimisation, arXiv 2210.05639).

    Without biases the network is 0 at r = 1, so f vanishes there, and by the margin around it: the three conditions
    of a drift hold whatever the weights. `inner` is `[..., 8, H]`, `outer` `[..., H]`, leading axes as in `log_ratio`.
    """
    hidden = (drift_features(log_ratio, advantage) @ inner).tanh()
    return ((hidden * outer[..., None, :]).sum(-1) - MARGIN).relu()


@dataclass(frozen=True)
class LearntDrift(Drift):
    """The network's drift; see `network_drift`. Computed in float64, where every feature is finite.

    `file` is a JSON file that `python -m hocket.lab.discover --out FILE` wrote; None takes the shipped parameters.
    """

    file: str | None = None

    power: ClassVar[int] = 1
    regardless_of_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _ = self.weights  # A missing or damaged file shows at once.

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """`inner` `[8, H]` and `outer` `[H]`, float64."""
        return _read(str(SHIPPED) if self.file is None else self.file)

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        inner, outer = (weight.to(log_ratio.device) for weight in self.weights)
        return network_drift(log_ratio.double(), advantage.double(), inner, outer).to(log_ratio.dtype)


@functools.cache
def _read(file: str) -> tuple[Tensor, Tensor]:
    try:
        found = json.loads(Path(file).read_text())
        inner = torch.tensor(found["inner"], dtype=torch.float64)
        outer = torch.tensor(found["outer"], dtype=torch.float64)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{file} holds no learnt drift ({error}); python -m hocket.lab.discover makes one"
        ) from (error)
    if inner.ndim != 2 or inner.shape != (FEATURES, len(outer)):
        raise ConfigurationError(f"{file}: inner must be {FEATURES} rows of as many numbers as outer has")
    return inner, outer


def write_drift(file: Path, inner: Tensor, outer: Tensor, **about: object) -> None:
    """Writes parameters in the form that `LearntDrift` reads, with facts `about` how they were found."""
    rounded: dict[str, Sequence[object]] = {
        "inner": [[round(value, 4) for value in row] for row in inner.tolist()],
        "outer": [round(value, 4) for value in outer.tolist()],
    }
    file.write_text(json.dumps({**about, **rounded}, indent=1) + "\n")

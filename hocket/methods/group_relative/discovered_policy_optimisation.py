"""Discovered policy optimisation: PPO with a penalty that was found by search (Lu et al., arXiv:2210.05639).

Its abbreviation DPO is no relative of direct preference optimisation. The clip gives way to a drift without a corner,
in closed form (`TanhDrift`) or as the small network that it was read off (`LearntDrift`); both enter `DriftSurrogate`
of `hocket.objectives.drift`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.methods.base.ppo import PPO
from hocket.objectives.drift import Drift, DriftSurrogate, tanh_drift
from hocket.objectives.learnt_drift import FEATURES, network_drift


@dataclass(frozen=True)
class TanhDrift(Drift):
    """The closed form that was read off a meta-learnt drift; see `tanh_drift`. `alpha` and `beta` are the paper's."""

    alpha: float = 2.0
    beta: float = 0.6

    power: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.alpha <= 0 or self.beta <= 0:
            raise ValueError(f"alpha and beta must be positive, not {self.alpha} and {self.beta}")

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        return tanh_drift(log_ratio, advantage, self.alpha, self.beta)


SHIPPED = Path(__file__).with_name("learnt_drift.json")
"""The parameters that `python -m hocket.lab.discover` found."""


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


DPO_DISCOVERED = PPO.but(
    name="discovered-policy-optimisation",
    title="Discovered Policy Optimisation (its DPO is no relative of direct preference optimisation)",
    source="Lu et al., arXiv:2210.05639; mirror learning arXiv:2201.02373",
    catalogue_ids=("discovered-policy-optimisation",),
    axes=("objective", "search"),
    formula="L = -mean_t (r A - f(r, A)) + 1/2 mean_t (V - y)^2,  f = relu(x - a tanh(x/a)),  "
    "x = (r-1) A and a = 2 for A >= 0,  x = A log r and a = 0.6 for A < 0",
    conventions={
        **PPO.conventions,
        "clipping side": "none: the drift grows on both sides, without a corner; values are not clipped",
    },
    objective=DriftSurrogate(drift=TanhDrift(alpha=2.0, beta=0.6), aggregate="token-mean"),
)


LPO = DPO_DISCOVERED.but(
    name="learnt-policy-optimisation",
    title="Learnt Policy Optimisation: the drift is a small network found by evolution strategies",
    catalogue_ids=("discovered-policy-optimisation",),
    formula="L = -mean_t (r A - f(r, A)) + 1/2 mean_t (V - y)^2,  f = relu(w . tanh(W x(r, A)) - 1e-6), x(1, A) = 0",
    conventions={
        **DPO_DISCOVERED.conventions,
        "clipping side": "none: whatever the network says; values are not clipped",
        "parameters": "80 weights, found on two-state bandits by python -m hocket.lab.discover; the paper's are of "
        "another family of tasks",
    },
    objective=DriftSurrogate(drift=LearntDrift(), aggregate="token-mean"),
)

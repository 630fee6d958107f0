"""Learnt worlds: an ensemble of Gaussian models of what follows a decision, as a part of a policy.

`DynamicsLoss` trains it beside whatever else is learnt from stored rows. `predicted` gives what it believes, `penalty`
how uncertain it is, and `hocket.zoo.joint.imagined_world` plays it as a world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast, get_args

import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.stored_rows import FOLLOWING, PAID, PLACE
from hocket.policies.action_values import Critics, joined
from hocket.policies.control_parts import ControlPart, EvaluatedRows, PartHost
from hocket.types import Quantity

LOWEST, HIGHEST = -10.0, 1.0
"""Between which log standard deviations are kept, softly."""

Penalty = Literal["aleatoric", "pairwise", "variance", "mixture", "left-out"]


@dataclass(frozen=True)
class Prediction:
    """What K models believe of B decisions: means and standard deviations of the change of what is seen, `[K, B, O]`
    with what is paid behind it, `[K, B, O + 1]` in all."""

    mean: Tensor
    deviation: Tensor


@dataclass(frozen=True)
class DynamicsEnsemble(ControlPart):
    """K Gaussian models of what is seen next and paid, perceptrons of state and action as large as the actor.

    Every model leaves out one in K of the stored rows, each another, so that they differ where rows are few.

    Attributes:
        models: K.
    """

    models: int = 5

    needed: ClassVar[str] = "models of what follows a decision"
    advice: ClassVar[str] = "drop hocket.objectives.DynamicsLoss"
    groups: ClassVar[Mapping[str, str]] = {"dynamics": "dynamics"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DYNAMICS})

    def __post_init__(self) -> None:
        if self.models < 2:
            raise ValueError(f"models must be at least 2, not {self.models}")

    def begin(self, host: PartHost) -> None:
        if host.discrete or host.network.normalise:
            raise ConfigurationError(
                f"policy {host.name!r}: models of what follows read vectors of actions and observations as they are; "
                "take a task such as gym:Pendulum-v1, and drop network.normalise"
            )
        sizes = (host.observations + host.actions, *host.hidden, 2 * (host.observations + 1))
        key = host.key.derive("dynamics")
        host.module.dynamics = Critics(self.models, sizes, activation=host.network.activation, key=key)

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"dynamics": self.models}

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        believed = predicted(cast(Critics, host.module.dynamics), rows.seen, rows.action)
        change = rows.column(FOLLOWING)[:, : host.observations] - rows.seen
        truth = torch.cat([change, rows.column(PAID)[:, None]], 1)
        loss = (0.5 * ((truth - believed.mean) / believed.deviation).square() + believed.deviation.log()).sum(-1)
        learns = (rows.column(PLACE) + torch.arange(self.models)[:, None]) % self.models != 0
        return {Quantity.DYNAMICS: (loss * learns).t()}


def predicted(models: Critics, seen: Tensor, action: Tensor) -> Prediction:
    """What the models of a policy, `policy.module.dynamics`, believe of decisions `[B, O]`, `[B, A]`."""
    mean, log_std = models.outputs(joined(seen, action)).chunk(2, -1)
    log_std = HIGHEST - functional.softplus(HIGHEST - log_std)
    log_std = LOWEST + functional.softplus(log_std - LOWEST)
    return Prediction(mean, log_std.exp())


def penalty(believed: Prediction, kind: Penalty) -> Tensor:
    """How uncertain the models are, `[B]` (Lu et al., arXiv:2110.04135; norms are over what is seen and paid).

    `aleatoric` is max_i |S_i| of the deviations, MOPO's; `pairwise` max_ij |mu_i - mu_j|, MOReL's; `variance` the norm
    of the deviation among the means; `mixture` that of the mixture's, mean_i(S_i^2 + mu_i^2) - mean_i(mu_i)^2 squared;
    `left-out` the mean KL of each model from the Gaussian of the others' moments.

    Raises:
        ValueError: for an unknown kind.
    """
    value: Tensor
    mean, deviation = believed.mean, believed.deviation
    if kind == "aleatoric":
        value = deviation.norm(dim=-1).amax(0)
        return value
    if kind == "pairwise":
        value = (mean[:, None] - mean).norm(dim=-1).amax((0, 1))
        return value
    spread = mean.var(0, unbiased=False)
    if kind == "variance":
        return spread.sum(-1).sqrt()
    if kind == "mixture":
        return (deviation.square().mean(0) + spread).sum(-1).sqrt()
    if kind == "left-out":
        others = len(mean) - 1
        centre = (mean.sum(0) - mean) / others
        second = deviation.square() + mean.square()
        wide = ((second.sum(0) - second) / others - centre.square()).clamp(min=1e-12)
        ratio = deviation.square() / wide
        divergence = 0.5 * (ratio + (mean - centre).square() / wide - 1 - ratio.log())
        return divergence.sum(-1).mean(0)
    raise ValueError(f"a penalty is one of {', '.join(get_args(Penalty))}, not {kind!r}")

"""MAPPO and HAPPO with PopArt: returns are normalised, and the critic's last layer keeps what values it gives.

As in `hocket.methods.base.value_norm` the critic learns returns less a running mean, over a running deviation. Whenever
these change, the weights of its last layer change too, so that no value does (van Hasselt et al., arXiv:1602.07714).
Values are in units of returns everywhere but in the loss. The formulas are those of the authors' `PopArt` layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.base.happo import HAPPO
from hocket.methods.base.mappo import MAPPO
from hocket.methods.base.value_norm import LOSSES, NORMALISED
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import ControlPart, PartHost
from hocket.stages import Metrics
from hocket.types import Evaluation, Quantity
from hocket.update.parts import PartedStep
from hocket.update.problem import Problem


class ReturnScale(nn.Module):
    """Running means of returns and of their squares, and what corrects both for their start at 0."""

    mean: Tensor
    square: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("mean", "square", "weight"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))


@dataclass(frozen=True)
class RescaledCritic(ControlPart):
    """A critic whose values are `deviation * output + mean`, by running statistics of returns in `module.returns`.

    Attributes:
        rate: of the running means, in [0, 1). floor: the least variance. epsilon: the least correction.
    """

    rate: float = 0.99999
    floor: float = 1e-2
    epsilon: float = 1e-5

    needed: ClassVar[str] = "a critic whose last layer is rescaled"
    advice: ClassVar[str] = "use ppo"

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1 or self.floor <= 0 or self.epsilon <= 0:
            raise ValueError(
                f"rate must lie in [0, 1), floor and epsilon above 0, not {self.rate}, {self.floor}, {self.epsilon}"
            )

    def begin(self, host: PartHost) -> None:
        if host.module.critic is not None:
            raise ConfigurationError(f"policy {host.name!r} has a critic that is not rescaled; train it anew")
        host.module.add_module("returns", ReturnScale())

    def add_critics(self, host: PartHost) -> None:
        _last_layer(host)

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"rescaled": True}

    def scale(self, host: PartHost) -> tuple[float, float]:
        """The mean and the deviation of returns; at first 0 and the root of the floor."""
        held = _returns(host)
        weight = held.weight.clamp(min=self.epsilon)
        mean = float(held.mean / weight)
        return mean, max(float(held.square / weight) - mean**2, self.floor) ** 0.5

    def values(self, host: PartHost, batch: Batch, chosen: Tensor, values: Tensor) -> Tensor:
        return self.last_values(host, values)

    def last_values(self, host: PartHost, values: Tensor) -> Tensor:
        mean, deviation = self.scale(host)
        return deviation * values + mean

    @torch.no_grad()
    def renew(self, host: PartHost, returns: Tensor) -> None:
        """Counts returns `[K]` among the statistics; all values stay what they are."""
        if not len(returns):
            return
        before, spread = self.scale(host)
        held, exact = _returns(host), returns.double()
        for average, latest in (
            (held.mean, exact),
            (held.square, exact.square()),
            (held.weight, torch.ones_like(exact)),
        ):
            average.mul_(self.rate).add_((1 - self.rate) * latest.mean())
        mean, deviation = self.scale(host)
        weight, bias = _last_layer(host)
        weight.mul_(spread / deviation)
        bias.copy_((spread * bias + before - mean) / deviation)


def _returns(host: PartHost) -> ReturnScale:
    held = host.module.get_submodule("returns")
    assert isinstance(held, ReturnScale)
    return held


def _last_layer(host: PartHost) -> tuple[Tensor, Tensor]:
    critic = host.module.critic
    layers = critic if isinstance(critic, Perceptron) else getattr(critic, "after", None)
    if not isinstance(layers, Perceptron):
        raise ConfigurationError(
            f"policy {host.name!r}: PopArt rescales a linear last layer, which the critic of network.body = "
            f"{host.network.body} has not; use another body, or mappo-value-norm, which rescales nothing"
        )
    return layers.weights[-1], layers.biases[-1]


@dataclass(frozen=True)
class RescalingStep(PartedStep):
    """`PartedStep` before which the batch's returns enter the critic's scale, and whose losses read normalised values.

    Targets, values at sampling and values now are `(v - mean) / deviation` to every loss.

    Attributes:
        rate, floor, epsilon: those of `RescaledCritic`.
    """

    rate: float = 0.99999
    floor: float = 1e-2
    epsilon: float = 1e-5

    @property
    def policy_parts(self) -> tuple[RescaledCritic, ...]:
        """The critic's scale."""
        return (RescaledCritic(self.rate, self.floor, self.epsilon),)

    def step(self, problem: Problem, key: Key) -> Metrics:
        """Rescales the critic, then changes the weights.

        Raises:
            ConfigurationError: without a credit that gives targets, or without a loss that reads values.
        """
        (part,), host, occurrences = self.policy_parts, problem.policy, problem.batch.occurrences
        if occurrences.target is None or Quantity.VALUE not in problem.needs:
            raise ConfigurationError("PopArt rescales a critic, and nothing trains one here; use update.PartedStep")
        part.renew(host, occurrences.target[occurrences.weight != 0])  # type: ignore[arg-type]
        mean, deviation = part.scale(host)  # type: ignore[arg-type]

        def normalised(values: Tensor | None) -> Tensor | None:
            return None if values is None else (values - mean) / deviation

        problem.batch = problem.batch.but(
            value=normalised(problem.batch.value),
            occurrences=replace(occurrences, target=normalised(occurrences.target)),
        )
        loss_terms = problem.loss_terms

        def terms(now: Evaluation, batch: Batch) -> Any:
            return loss_terms(replace(now, value=normalised(now.value)), batch)

        problem.loss_terms = terms
        return {**super().step(problem, key), "value/mean": mean, "value/deviation": deviation}


POPART = {
    "values": "those of the critic are its output times a running deviation of returns, plus their mean; both are "
    "renewed once a step, rate 0.99999, and the last layer is rescaled so that no value changes (the authors' code "
    "renews them at every mini-batch, after it has computed the mini-batch's values)",
    "value loss": NORMALISED["value loss"] + ", of normalised values; values at sampling are normalised anew",
}

MAPPO_POPART = MAPPO.but(
    name="mappo-popart",
    title="MAPPO with PopArt and Huber's loss",
    source="Yu et al., arXiv:2103.01955, and the authors' code (use_popart, use_huber_loss); van Hasselt et al., "
    "arXiv:1602.07714",
    formula="L = -mean_t min(r_t A_t, clip(r_t) A_t) + mean_t max(h(z_t - n_t), h(z_t - clip(n_t))) - 0.01 mean_t "
    "H_t,  z = (y - m)/s,  n = (V - m)/s = w.f + b,  w <- w s'/s, b <- (s' b + m' - m)/s where m', s' become m, s",
    conventions={**MAPPO.conventions, **POPART},
    regularisers=LOSSES,
    update=RescalingStep(epochs=MAPPO.update.epochs, minibatches=MAPPO.update.minibatches),
)


HAPPO_POPART = HAPPO.but(
    name="happo-popart",
    title="HAPPO with PopArt and Huber's loss",
    source="Kuba et al., arXiv:2109.11251; van Hasselt et al., arXiv:1602.07714",
    formula=HAPPO.formula + ",  V and its loss as mappo-popart's",
    conventions={**HAPPO.conventions, **POPART},
    regularisers=LOSSES,
    update=RescalingStep(epochs=HAPPO.update.epochs, minibatches=HAPPO.update.minibatches),
)

"""First-order updates with separate settings for parts of the networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from hocket.core.errors import ConfigurationError, nearest
from hocket.stages import Policy
from hocket.update.gradient import GradientStep


@runtime_checkable
class HasParts(Protocol):
    """A policy whose weights have named parts, such as `actor` and `critic`; every weight is in one of them."""

    def parts(self) -> Mapping[str, list[nn.Parameter]]: ...


@dataclass(frozen=True)
class Pace:
    """The update settings of one part of a policy's weights.

    Attributes:
        lr: its learning rate; None takes the update's. Schedules apply to it as well.
        every: it is updated with every `every`-th gradient, counted over the run; the others are dropped.
        clip_norm: the largest norm of its gradient, after clipping of the whole gradient; None does not clip.
    """

    lr: float | None = None
    every: int = 1
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        if self.every < 1 or any(number is not None and not number > 0 for number in (self.lr, self.clip_norm)):
            raise ValueError(f"lr and clip_norm must be positive and every at least 1, not {self}")


@dataclass(frozen=True)
class PartedStep(GradientStep):
    """`GradientStep` with separate settings for named parts of the policy.

    Without `paces` it equals `GradientStep` to the bit.

    Attributes:
        paces: settings by the policy's names of its parts, such as `actor` and `critic` of control networks.
    """

    paces: Mapping[str, Pace] = field(default_factory=dict)

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """A fresh optimiser with a group of weights for each part.

        Raises:
            ConfigurationError: for a part that the policy does not have.
        """
        optimiser = super().optimiser(policy)
        if not self.paces:
            return optimiser
        held = policy.parts() if isinstance(policy, HasParts) else {}
        unknown = next((name for name in self.paces if name not in held), None)
        if unknown is not None:
            has = f"has only {', '.join(held)}" if held else "has no named parts"
            raise ConfigurationError(
                f"update.paces.{unknown}: policy {policy.name!r} {has}{nearest(unknown, held)}; name one of its parts"
            )
        (common,) = optimiser.param_groups
        shared = {name: value for name, value in common.items() if name != "params"}
        optimiser.param_groups.clear()
        for name, weights in held.items():
            pace = self.paces.get(name, Pace())
            lr = shared["lr"] if pace.lr is None else pace.lr
            paced = {"part": name, "every": pace.every, "clip_norm": pace.clip_norm, "given": 0}
            trained = [weight for weight in weights if weight.requires_grad]
            if trained:
                optimiser.add_param_group({**shared, **paced, "lr": lr, "params": trained})
        optimiser.register_step_pre_hook(_paced)
        return optimiser


def _paced(optimiser: torch.optim.Optimizer, *_: Any) -> None:
    """Drops the gradients of parts that are not due, and clips the others; the counts are in the optimiser's state."""
    for group in optimiser.param_groups:
        group["given"] += 1
        moved = [weight for weight in group["params"] if weight.grad is not None]
        if group["given"] % group["every"]:
            for weight in moved:
                weight.grad = None
        elif group["clip_norm"] is not None and moved:
            torch.nn.utils.clip_grad_norm_(moved, group["clip_norm"])

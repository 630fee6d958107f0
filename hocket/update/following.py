"""Slow copies of networks: parts of a policy that follow its learnt parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from hocket.core.errors import ConfigurationError
from hocket.stages import Policy
from hocket.update.parts import PartedStep


@runtime_checkable
class HasSlowParts(Protocol):
    """A policy with slow copies of some of its weights."""

    def slow_parts(self) -> Mapping[str, tuple[list[nn.Parameter], list[nn.Parameter]]]:
        """By name the weights of a copy, and those that it follows."""
        ...


@dataclass(frozen=True)
class FollowingStep(PartedStep):
    """`PartedStep` after whose gradients slow copies move towards what is learnt: `slow <- slow + rate (w - slow)`.

    Attributes:
        rate: in (0, 1]; 1 copies. follow_every: they move after every so many gradients, counted over the run.
        copied: by name of a slow copy, after how many gradients it becomes what is learnt; it moves at no other time.
    """

    rate: float = 0.005
    follow_every: int = 1
    copied: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rate <= 1 or self.follow_every < 1:
            raise ValueError(
                f"rate must lie in (0, 1] and follow_every be at least 1, not {self.rate} and {self.follow_every}"
            )
        if min(self.copied.values(), default=1) < 1:
            raise ValueError(f"copied must be numbers of gradients of at least 1, not {dict(self.copied)}")

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """A fresh optimiser, whose steps move the slow copies too.

        Raises:
            ConfigurationError: for a policy without slow copies, and for an unknown part.
        """
        held = policy.slow_parts() if isinstance(policy, HasSlowParts) else {}
        if not held:
            raise ConfigurationError(
                f"policy {policy.name!r} has no slow copies that could follow; set update to hocket.update.PartedStep"
            )
        if unknown := next((name for name in self.copied if name not in held), None):
            raise ConfigurationError(
                f"update.copied.{unknown}: policy {policy.name!r} has the slow copies {', '.join(held)}; name one"
            )
        optimiser = super().optimiser(policy)
        moving = [pair for name, pair in held.items() if name not in self.copied]
        slow: list[torch.Tensor] = [weight for copy, _ in moving for weight in copy]
        learnt: list[torch.Tensor] = [weight for _, weights in moving for weight in weights]
        optimiser.param_groups[0]["steps"] = 0  # In the state of the optimiser, so that a resumed run counts on.

        def follow(stepped: torch.optim.Optimizer, *_: Any) -> None:
            stepped.param_groups[0]["steps"] += 1
            if stepped.param_groups[0]["steps"] % self.follow_every == 0:
                with torch.no_grad():
                    torch._foreach_lerp_(slow, learnt, self.rate)
            for name, every in self.copied.items():
                if stepped.param_groups[0]["steps"] % every == 0:
                    with torch.no_grad():
                        for weight, learnt_weight in zip(*held[name], strict=True):
                            weight.copy_(learnt_weight)

        optimiser.register_step_post_hook(follow)
        return optimiser

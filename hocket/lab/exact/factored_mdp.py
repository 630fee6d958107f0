"""Linear decision processes: transitions that mix a few latent factors, by features of state and action."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True, eq=False)
class FactoredMDP(TabularMDP):
    """`P(.|s, a) = sum_i phi_i(s, a) mu_i`, which the transitions must be.

    Attributes:
        features: phi, shares, `[S, A, d]`. factors: mu, next states by factor, `[d, S]`.
    """

    features: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    factors: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.features < 0).any() or not np.allclose(self.features.sum(-1), 1):
            raise ConfigurationError(f"{self.name}: the features of every state and action are shares that sum to 1")
        if not np.allclose(self.features @ self.factors, self.transition, rtol=0, atol=1e-9):
            raise ConfigurationError(f"{self.name}: the transitions are not features times factors")


def factored(world: TabularMDP) -> FactoredMDP:
    """A world as it is, or one of a factor for every state and action."""
    if isinstance(world, FactoredMDP):
        return world
    size = world.states * world.actions
    return mixed(
        np.eye(size).reshape(*world.reward.shape, size),
        world.transition.reshape(size, -1),
        world.reward,
        world.start,
        world.horizon,
        world.discount,
        world.name,
    )


def mixed(
    features: Array,
    factors: Array,
    reward: Array,
    start: Array,
    horizon: int | None,
    discount: float = 1.0,
    name: str = "factored",
) -> FactoredMDP:
    """The process that features and factors make."""
    return FactoredMDP(features @ factors, reward, start, horizon, discount, name, features, factors)


def estimated(world: FactoredMDP, seen: Array) -> tuple[Array, Array]:
    """Ridge regression of the next state on the features: what the factors may be, and how certain that is.

    Args:
        seen: how often each transition was seen, `[S, A, S]`.

    Returns:
        shares `[d, S]`, whose rows may sum to less than 1, and the inverse of `sum phi phi^T + I`, `[d, d]`.
    """
    features = world.features.reshape(-1, world.features.shape[-1])
    inverse = np.linalg.inv(features.T @ (seen.sum(-1).reshape(-1, 1) * features) + np.eye(features.shape[1]))
    return inverse @ features.T @ seen.reshape(len(features), -1), inverse


def causeway(length: int, slip: float = 0.03) -> FactoredMDP:
    """Along a causeway to a place that pays 1 a step: walking is safe and slow, running may fall off for good.

    Factors are `walked to p`, `ran to p` (which falls with probability `slip`) and `fallen`, in this order.
    """
    fallen, factors = length, np.zeros((2 * length + 1, length + 1))
    features, reward = np.zeros((length + 1, 2, 2 * length + 1)), np.zeros((length + 1, 2))
    for place in range(length):
        factors[place, place] = 1
        factors[length + place, place], factors[length + place, fallen] = 1 - slip, slip
        following = min(place + 1, length - 1)
        features[place, 0, place] += 0.5
        features[place, 0, following] += 0.5
        features[place, 1, length + following] = 1
    factors[2 * length, fallen] = features[fallen, :, 2 * length] = 1
    reward[length - 1] = 1
    return mixed(features, factors, reward, np.eye(length + 1)[0], 3 * length, name=f"causeway:{length}")


CAUSEWAY = WorldFamily(
    name="causeway", description="to its end, walking slowly or running and maybe falling", make=causeway, size=(4,)
)

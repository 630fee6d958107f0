"""R2PVI: offline value iteration that is robust to shifts of latent factors, each at a price.

Transitions mix d factors by known features, `P(.|s, a) = sum_i phi_i(s, a) mu_i`. An adversary may move each factor
away from what the data came from, and pays `lam * D_f(mu || mu0_i)`. So

    Q_h(s, a) = r(s, a) + sum_i phi_i(s, a) W_i - beta sum_i phi_i(s, a) sqrt((Lambda^-1)_ii)
    W_i = inf_mu E_mu[V] + lam D_f(mu || mu0_i),   V the value of the next step

with the closed forms of `worst`, in which expectations under `mu0_i` come from ridge regression of functions of the
next state on the features, `Lambda = sum phi phi^T + I`; its last term is pessimism where data are few.

The paper's text was not at hand. The total variation form was derived (mass moves to the least value wherever that
gains more than its price), the others are the catalogue's, recalled; all three are held against direct minimisation.
Ours are: transitions are the same at every step, so the regression takes all steps' data together, the paper's one step
at a time; rewards are known; action values are clipped to what rewards allow; a row of estimated shares may sum to less
than 1, as the ridge leaves it. Data are gathered by even play, `episodes` more each step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.factored_mdp import FactoredMDP, estimated, factored
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.solver import EpisodicSolver, SolverMethod, State

Divergence = Literal["tv", "kl", "chi2"]


def worst(shares: Array, value: Array, price: float, divergence: Divergence) -> Array:
    """`inf_mu E_mu[V] + price * D(mu || mu0)` for each row mu0 of `shares`, by the closed forms, `[d]`.

    `tv` (half the absolute difference): `E[min(V, min V + price)]`; `kl`: `-price log E[exp(-V / price)]`; `chi2`:
    `sup_a E[min(V, a)] - Var[min(V, a)] / (4 price)`. An infinite price leaves `E[V]`.

    Args:
        shares: `[d, S]`, also estimated ones that sum to less than 1. value: `[S]`.
    """
    if math.isinf(price):
        expected: Array = shares @ value
        return expected
    if divergence == "tv":
        capped: Array = shares @ np.minimum(value, value.min() + price)
        return capped
    if divergence == "kl":
        low = value.min()  # Taken out, so that nothing overflows; estimated shares may be negative.
        mean = shares @ np.exp(-(value - low) / price)
        found: Array = low - price * np.log(np.clip(mean, np.exp(-(value.max() - low) / price), None))
        return found
    return _by_variance(shares, value, price)


def _by_variance(shares: Array, value: Array, price: float) -> Array:
    """The `chi2` form. Between two values in order it is a quadratic function of the cap, whose top is known.

    Estimated shares may be negative, and it may then be highest at one of the two values instead.
    """
    order = value.argsort()
    ordered, weight = value[order], shares[:, order]
    first, second = (weight * ordered).cumsum(1), (weight * ordered**2).cumsum(1)
    above = weight.sum(1, keepdims=True) - weight.cumsum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (2 * price + first) / (1 - above)
    upper = np.append(ordered[1:], ordered[-1])
    cap = np.clip(np.where(np.isfinite(top), top, upper), ordered, upper)

    def reached(cap: Array) -> Array:
        mean = first + cap * above
        spread = second + cap**2 * above - mean**2
        found: Array = mean - spread / (4 * price)
        return found

    highest: Array = np.maximum(reached(cap), reached(ordered)).max(1)
    return highest


def robust_value(world: FactoredMDP, policy: Array, price: float, divergence: Divergence) -> float:
    """The exact value of a policy `[H, S, A]` against the adversary who knows it and the true factors."""
    value: Array = np.zeros(world.states)
    for step in reversed(range(len(policy))):
        quality = world.reward + world.discount * world.features @ worst(world.factors, value, price, divergence)
        value = (policy[step] * quality).sum(-1)
    return float(world.start @ value)


@dataclass(frozen=True)
class RobustPessimism(EpisodicSolver):
    """See the module.

    Attributes:
        price: what the adversary pays for a unit of divergence; `.inf` leaves it no shift. beta: of the pessimism.
        episodes: that are gathered each step, every action as likely.
        against: the price of the adversary by whom the figure `robust` of each step is measured.
    """

    price: float = 2.0
    divergence: Divergence = "tv"
    beta: float = 0.1
    episodes: int = 20
    against: float = 2.0

    def __post_init__(self) -> None:
        if not min(self.price, self.against) > 0 or not 0 <= self.beta < math.inf or self.episodes < 1:
            raise ConfigurationError(
                f"method.price = {self.price}, method.against = {self.against}, method.beta = {self.beta}, "
                f"method.episodes = {self.episodes}: prices are positive, beta at least 0, episodes "
                "at least 1"
            )

    def init(self, world: TabularMDP, key: Key) -> State:
        return {**TransitionCounts.none(world).state, "policy": world.even}

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        counts = TransitionCounts.of(state)
        for number in range(self.episodes):
            counts = counts.plus(world.episode(world.even, key.derive("episode", number)))
        whole = factored(world)
        policy, value = planned(whole, counts.seen, self)
        robust = robust_value(whole, policy, self.against, self.divergence)
        return {**counts.state, "policy": policy}, {"estimate": value, "robust": robust}

    def answer(self, world: TabularMDP, state: State) -> Array:
        return state["policy"]


def planned(world: FactoredMDP, seen: Array, how: RobustPessimism) -> tuple[Array, float]:
    """The robust, pessimistic policy from counts of transitions `[S, A, S]`, and what it expects at the start."""
    shares, inverse = estimated(world, seen)
    penalty = how.beta * world.features @ np.sqrt(inverse.diagonal())
    value, policy, left = np.zeros(world.states), np.zeros(world.shape), 0.0
    for step in reversed(range(len(policy))):
        left = 1 + world.discount * left
        low, high = min(0.0, left * world.reward.min()), left * world.reward.max()
        ahead = world.discount * world.features @ worst(shares, value, how.price, how.divergence)
        quality = np.clip(world.reward + ahead - penalty, low, high)
        policy[step] = world.greedy(quality)
        value = quality.max(-1)
    return policy, float(world.start @ value)


R2PVI = SolverMethod(
    name="r2pvi",
    description="plans offline against shifts of latent factors that cost a price",
    solver=RobustPessimism(),
    world="causeway:4",
    steps=20,
    source="Robust Offline Reinforcement Learning with Linearly Structured f-Divergence Regularization",
)

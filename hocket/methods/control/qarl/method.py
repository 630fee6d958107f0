"""QARL: an adversary that is nearly random at first and becomes rational by a curriculum (Reddi et al., 2311.01642).

Adversarial training as a game with entropies,

    max_pi min_mu  E sum_t gamma^t (r_t + a_p H(pi(s_t)) - a_a H(mu(s_t))),

whose solution is a quantal response equilibrium: either side plays the softmax of its action values, with its
temperature as its degree of irrationality. The adversary's temperature a_a begins hot and is lowered, each time that
the protagonist still earns enough, down to a cold end.

Here both players are tables and see exact expectations. A step moves either policy towards its softmax,

    log pi <- log pi + eta (Q_pi - a_p log pi),   log mu <- log mu - eta (Q_mu + a_a log mu),

(a mirror step of the game with entropies, which converges to the equilibrium where steps are small), and the values of
states towards those of the pair. Without temperatures (`rational`) it is RARL (Pinto et al., arXiv:1703.02702). Ours
are the form of the steps, a temperature that falls by a factor where the authors fit a distribution of temperatures,
and "enough": a share of what the best policy earns without a thinking adversary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.control.qarl.world import DisturbedGame


@dataclass(frozen=True)
class QuantalAdversary(Solver):
    """See the module. A step of the solver is some steps of both players, then one of the curriculum.

    Attributes:
        protagonist: a_p. hot, cold: a_a at first and at last. cooling: its factor. enough: the share of the calm value
            that the protagonist must earn for it to fall. inner: steps of both. eta: of a step. pace: of the values.
        rational: whether both play without temperatures from the start, which is RARL. noise: of the first logits.
    """

    world: ClassVar[type] = DisturbedGame

    protagonist: float = 0.1
    hot: float = 3.0
    cold: float = 0.1
    cooling: float = 0.9
    enough: float = 0.3
    inner: int = 50
    eta: float = 0.2
    pace: float = 0.2
    rational: bool = False
    noise: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.cold <= self.hot or not self.protagonist > 0 or not 0 < self.cooling < 1 or self.inner < 1:
            raise ConfigurationError(
                f"method.protagonist = {self.protagonist}, method.cold = {self.cold} and method.hot = {self.hot} are "
                f"positive, cold no more than hot, method.cooling = {self.cooling} is between 0 and 1, method.inner = "
                f"{self.inner} at least 1"
            )
        if not self.eta > 0 or not 0 < self.pace <= 1 or self.eta * self.hot >= 1 or self.noise < 0:
            raise ConfigurationError(
                f"method.eta = {self.eta} is positive and below 1 / method.hot, method.pace = {self.pace} in (0, 1], "
                f"method.noise = {self.noise} at least 0"
            )

    def init(self, world: DisturbedGame, key: Key) -> State:
        states, mine, others = world.reward.shape
        rng = key.numpy()
        first = {"policy": rng.normal(size=(states, mine)), "adversary": rng.normal(size=(states, others))}
        tables = {name: self.noise * table for name, table in first.items()}
        return {**tables, "value": np.zeros(states), "temperature": np.array(self.hot)}

    def step(self, world: DisturbedGame, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        policy, adversary, value = state["policy"], state["adversary"], state["value"]
        warmth = float(state["temperature"])
        temperatures = (0.0, 0.0) if self.rational else (self.protagonist, warmth)
        for _ in range(self.inner):
            policy, adversary, value = self.moved(world, policy, adversary, value, temperatures)
        earned = world.against(softmax(adversary)).value(softmax(policy))
        if earned >= self.enough * world.calm:
            warmth = max(self.cold, self.cooling * warmth)
        after = {"policy": policy, "adversary": adversary, "value": value, "temperature": np.array(warmth)}
        return after, {"earned": earned, "temperature": temperatures[1]}

    def moved(
        self, world: DisturbedGame, policy: Array, adversary: Array, value: Array, temperatures: tuple[float, float]
    ) -> tuple[Array, Array, Array]:
        """Logits of both, centred, and values of states after one step."""
        mine, other = softmax(policy), softmax(adversary)
        quality, (own, warmth) = world.quality(value), temperatures
        gains = np.einsum("sab,sb->sa", quality, other), np.einsum("sab,sa->sb", quality, mine)
        entropies = [-(odds * np.log(np.maximum(odds, 1e-300))).sum(-1) for odds in (mine, other)]
        worth = (gains[0] * mine).sum(-1) + own * entropies[0] - warmth * entropies[1]
        return (
            centred((1 - self.eta * own) * policy + self.eta * gains[0]),
            centred((1 - self.eta * warmth) * adversary - self.eta * gains[1]),
            value + self.pace * (worth - value),
        )

    def answer(self, world: DisturbedGame, state: State) -> Array:
        """The protagonist's policy `[S, A]`."""
        return softmax(state["policy"])


def centred(logits: Array) -> Array:
    """With mean 0 in every state."""
    moved: Array = logits - logits.mean(-1, keepdims=True)
    return moved


QARL = SolverMethod(
    name="qarl",
    description="robust control against an adversary whose rationality grows by a curriculum of temperatures",
    solver=QuantalAdversary(),
    world="gusts:4",
    steps=60,
    source="Robust Adversarial Reinforcement Learning via Bounded Rationality Curricula, arXiv:2311.01642",
    note="tables with exact expectations in place of soft actor-critics, where a cold adversary from the start serves "
    "as well: that the curriculum itself helps was not seen",
)

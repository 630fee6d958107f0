"""MAMQL: rewards and policies of several agents from demonstrations, by soft action values (Haynam et al., 2025).

Agent i has values `Q_i(s, a_i)` of its own actions, in which the others' are averaged out. Its policy is `softmax(Q_i /
tau)`, `V_i = tau log sum_a exp(Q_i / tau)`, and its values are those that minimise

    - E_demo[Q_i(s, a_i) - gamma V_i(s')] + E_rows[V_i(s) - gamma V_i(s')]
        + kappa E_rows[(Q_i(s, a_i) - gamma V_i(s'))^2],

with rows half of the demonstrations and half of episodes of the present policies. The reward is then read off, `r_i =
Q_i - gamma E[V_i(s')]`. There is no inner reinforcement learning and no discriminator.

The criterion is IQ-Learn's (Garg et al., arXiv:2106.12142) for each agent; the authors' regulariser was not at hand.
Here values are tables. With `discriminator` the same tables learn as in GAIL instead: a logistic discriminator of each
agent pays `d_i(s, a_i)`, and soft Q-learning on the episodes follows it.
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
from hocket.methods.marl.mamql.world import DemonstratedGame, JointRows, soft

MOST = 1.0
"""The largest reward of a discriminator; without a bound values run away."""


@dataclass(frozen=True)
class InverseQ(Solver):
    """See the module. A step plays some episodes, then makes gradients on them and on all demonstrations.

    Attributes:
        demonstrations: episodes of the expert. length: of an episode. episodes: played in a step. gradients: of a
            step, by Adam with `lr`. kappa: of the regulariser. discriminator: learn as in GAIL.
    """

    world: ClassVar[type] = DemonstratedGame

    demonstrations: int = 100
    length: int = 30
    episodes: int = 8
    gradients: int = 10
    lr: float = 0.03
    kappa: float = 0.02
    discriminator: bool = False

    def __post_init__(self) -> None:
        counts = (self.demonstrations, self.length, self.episodes, self.gradients)
        if min(counts) < 1 or not self.lr > 0 or self.kappa < 0:
            raise ConfigurationError(
                f"method.demonstrations = {self.demonstrations}, method.length = {self.length}, method.episodes = "
                f"{self.episodes}, method.gradients = {self.gradients}, method.lr = {self.lr}, method.kappa = "
                f"{self.kappa}: the counts are at least 1, lr is positive, kappa at least 0"
            )

    def init(self, world: DemonstratedGame, key: Key) -> State:
        rows = world.played(world.expert, self.demonstrations, self.length, key.derive("demonstrations"))
        tables = {"quality": np.zeros(world.shape), "logit": np.zeros(world.shape)}
        moments = np.zeros((2, *world.shape))
        return {**vars(rows), **tables, "moments": moments, "count": np.zeros((), np.int64)}

    def step(self, world: DemonstratedGame, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        demos = JointRows(*(state[name] for name in JointRows.__dataclass_fields__))
        quality, logit = state["quality"].copy(), state["logit"].copy()
        moments, count = state["moments"].copy(), int(state["count"])
        fresh = world.played(softmax(quality / world.temperature), self.episodes, self.length, key)
        rows = demos.beside(fresh)
        for _ in range(self.gradients):
            count += 1
            learnt = logit if self.discriminator else quality
            slopes = [
                discrimination(logit[agent], agent, demos, fresh)
                if self.discriminator
                else slope(quality[agent], agent, demos, rows, world.temperature, world.discount, self.kappa)
                for agent in range(2)
            ]
            learnt -= self.lr * adam(moments, np.stack(slopes), count)
            if self.discriminator:
                for agent in range(2):
                    quality[agent] = followed(quality[agent], logit[agent], agent, fresh, world)
        after = {"quality": quality, "logit": logit, "moments": moments, "count": np.array(count)}
        policies = softmax(quality / world.temperature)
        first, second = world.returns(policies)
        return {**state, **after}, {"return/first": float(first), "return/second": float(second)}

    def answer(self, world: DemonstratedGame, state: State) -> Array:
        """Both agents' policies `[2, S, A]`."""
        return softmax(state["quality"] / world.temperature)


def slope(
    quality: Array, agent: int, demos: JointRows, rows: JointRows, temperature: float, discount: float, kappa: float
) -> Array:
    """The gradient of an agent's criterion by its values `[S, A]`."""
    value, policy, result = soft(quality, temperature), softmax(quality / temperature), np.zeros_like(quality)

    def towards(rows: JointRows, weight: Array) -> None:
        """Adds `weight` times the gradients of `Q(s, a) - discount V(s')`."""
        np.add.at(result, (rows.states, rows.actions[:, agent]), weight)
        np.add.at(result, rows.onward, -discount * weight[:, None] * policy[rows.onward])

    towards(demos, -demos.weight)
    np.add.at(result, rows.states, rows.weight[:, None] * policy[rows.states])
    np.add.at(result, rows.onward, -discount * rows.weight[:, None] * policy[rows.onward])
    implied = quality[rows.states, rows.actions[:, agent]] - discount * value[rows.onward]
    towards(rows, 2 * kappa * rows.weight * implied)
    return result


def discrimination(logit: Array, agent: int, demos: JointRows, fresh: JointRows) -> Array:
    """The gradient of `-E_demo log sigma(d) - E_fresh log(1 - sigma(d))` by an agent's logits `[S, A]`."""
    share, result = 1 / (1 + np.exp(-logit)), np.zeros_like(logit)
    np.add.at(result, (demos.states, demos.actions[:, agent]), -demos.weight)
    for rows in (demos, fresh):
        places = rows.states, rows.actions[:, agent]
        np.add.at(result, places, rows.weight * share[places])
    return result


def followed(quality: Array, logit: Array, agent: int, fresh: JointRows, world: DemonstratedGame) -> Array:
    """Values after one pass of soft Q-learning on the rows, whose reward is the logit."""
    places = fresh.states, fresh.actions[:, agent]
    target = logit[places].clip(-MOST, MOST) + world.discount * soft(quality, world.temperature)[fresh.onward]
    total, count = np.zeros_like(quality), np.zeros_like(quality)
    np.add.at(total, places, target)
    np.add.at(count, places, 1.0)
    moved: Array = np.where(count > 0, quality + 0.5 * (total / np.maximum(count, 1) - quality), quality)
    return moved


def adam(moments: Array, gradient: Array, count: int) -> Array:
    """The direction of a step; both moments are moved in place."""
    moments[0] += 0.1 * (gradient - moments[0])
    moments[1] += 0.01 * (gradient**2 - moments[1])
    direction: Array = moments[0] / (1 - 0.9**count) / (np.sqrt(moments[1] / (1 - 0.99**count)) + 1e-8)
    return direction


def read_off(world: DemonstratedGame, quality: Array) -> Array:
    """The rewards `[2, S, A]` that values imply, the other's actions averaged out."""
    policies = softmax(quality / world.temperature)
    rewards = [
        quality[agent]
        - world.discount
        * world.marginal(soft(quality[agent], world.temperature)[world.onward], agent, policies[1 - agent])
        for agent in range(2)
    ]
    return np.stack(rewards)


MAMQL = SolverMethod(
    name="mamql",
    description="policies and rewards of two agents from demonstrations, by soft action values of each",
    solver=InverseQ(),
    world="demonstrated:3",
    steps=20,
    source="Multi-Agent Inverse Q-Learning from Demonstrations (2025)",
)

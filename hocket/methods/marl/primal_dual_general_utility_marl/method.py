"""Primal-dual actor-critic for agents whose utilities and constraints are functions of where they spend their time.

Each agent i has an objective f_i and a constraint `g_i >= 0`, any smooth functions of its own discounted occupancy
lambda_i. The gradient of `L = sum_i f_i(lambda_i) + mu_i g_i(lambda_i)` is an ordinary policy gradient, whose reward is

    r_i(s_i, a_i) = df_i/dlambda_i (s_i, a_i) + mu_i dg_i/dlambda_i (s_i, a_i),

the shadow reward, made anew as the policy moves. Agents learn from episodes: occupancies are counted, each critic
Q_i knows the states and actions of the neighbours up to kappa steps away alone, agent i's gradient takes the critics
within that distance, and the multipliers descend, `mu_i <- [mu_i - eta g_i]` on `[0, price]`.

Source: Ying et al., "Scalable Primal-Dual Actor-Critic Method for Safe Multi-Agent RL with General Utilities",
recalled. Ours are: agents along a line with policies of their own state alone; the critic is the fixed point that TD
goes to on the episodes just drawn, by sweeps; a baseline of each agent's own state; constant steps instead of the
theory's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.marl.primal_dual_general_utility_marl.networks import Network, Trails, shadow

SWEEPS = 60
"""Of a critic over the episodes: `.9 ** 60` is .002."""


@dataclass(frozen=True)
class PrimalDual(Solver):
    """See the module.

    Attributes:
        kappa: how far an agent looks, in neighbours. episodes, steps: of a batch, and decisions of each.
        rate, dual: steps of policies and of multipliers; without `dual` nothing is heard of the constraints.
    """

    world: ClassVar[type] = Network

    kappa: int = 1
    episodes: int = 64
    steps: int = 40
    rate: float = 1.0
    dual: float = 0.5

    def __post_init__(self) -> None:
        if self.kappa < 0 or self.episodes < 2 or self.steps < 1 or self.rate < 0 or self.dual < 0:
            raise ConfigurationError(
                f"method.kappa = {self.kappa}, method.episodes = {self.episodes}, method.steps = {self.steps}, "
                f"method.rate = {self.rate}, method.dual = {self.dual}: none is below 0, there are at least 2 episodes "
                "and 1 step"
            )

    def init(self, world: Network, key: Key) -> State:
        return {
            "logits": np.zeros((world.agents, world.states, world.actions)),
            "multipliers": np.zeros(world.agents),
        }

    def step(self, world: Network, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        policy, multipliers = softmax(state["logits"]), state["multipliers"]
        seen = world.trails(policy, self.episodes, self.steps, key)
        shares = counted(world, seen)
        left = world.constraint.value(shares)
        climb = self.gradient(world, policy, seen, shadow(world, shares, multipliers))
        return {
            "logits": state["logits"] + self.rate * climb,
            "multipliers": np.clip(multipliers - self.dual * left, 0, world.price),
        }, {"objective": float(world.objective.value(shares).sum()), "least_left": float(left.min())}

    def gradient(self, world: Network, policy: Array, seen: Trails, rewards: Array) -> Array:
        """`[n, S, A]`, the policy gradient of the rewards `[n, S, A]` from episodes, by local softmax logits."""
        critics = [self.critic(world, seen, rewards, agent) for agent in range(world.agents)]
        fading = (1 - world.discount) * world.discount ** np.arange(seen.actions.shape[1])
        found = np.zeros_like(policy)
        for agent, near in enumerate(neighbours(world.agents, self.kappa)):
            states, actions = seen.states[:, :-1, agent], seen.actions[..., agent]
            worth = np.sum([critics[other] for other in near], axis=0)
            usual = _mean(worth, states, world.states)
            weight = fading * (worth - usual[states]) / len(seen.actions)
            np.add.at(found[agent], (states, actions), weight)
            found[agent] -= np.bincount(states.ravel(), weight.ravel(), world.states)[:, None] * policy[agent]
        return found

    def critic(self, world: Network, seen: Trails, rewards: Array, agent: int) -> Array:
        """`[E, T]`, the agent's Q of what those within reach were and did.

        An episode is broken off, so its last decision tells only what followed the one before. It has the value of
        decisions like it, and 0 where there is none.
        """
        near = neighbours(world.agents, self.kappa)[agent]
        size = world.states * world.actions
        pairs = seen.states[:, :-1][..., near] * world.actions + seen.actions[..., near]
        kinds, index = np.unique(pairs @ size ** np.arange(len(near)), return_inverse=True)
        index = index.reshape(pairs.shape[:2])
        earned = rewards[agent][seen.states[:, :-1, agent], seen.actions[..., agent]]
        quality = np.zeros(len(kinds))
        for _ in range(SWEEPS):
            target = earned[:, :-1] + world.discount * quality[index[:, 1:]]
            quality = _mean(target, index[:, :-1], len(kinds))
        found: Array = quality[index]
        return found

    def answer(self, world: Network, state: State) -> Array:
        return softmax(state["logits"])


def counted(world: Network, seen: Trails) -> Array:
    """`[n, S, A]`, discounted shares of episodes that are broken off, which sum to 1."""
    fading = world.discount ** np.arange(seen.actions.shape[1])
    found = np.zeros((world.agents, world.states, world.actions))
    for agent in range(world.agents):
        where = seen.states[:, :-1, agent], seen.actions[..., agent]
        np.add.at(found[agent], where, np.broadcast_to(fading, where[0].shape))
    whole: Array = found / (len(seen.actions) * fading.sum())
    return whole


def neighbours(agents: int, reach: int) -> list[NDArray[np.int64]]:
    """Of each agent, those at most `reach` places away along the line, itself among them."""
    return [np.arange(max(agent - reach, 0), min(agent + reach + 1, agents)) for agent in range(agents)]


def _mean(values: Array, index: NDArray[np.int64], size: int) -> Array:
    """`[size]`, the mean of the values of each number; 0 where there is none."""
    total = np.bincount(index.ravel(), values.ravel(), size)
    found: Array = total / np.maximum(np.bincount(index.ravel(), minlength=size), 1)
    return found


PRIMAL_DUAL_GENERAL_UTILITY_MARL = SolverMethod(
    name="primal-dual-general-utility-marl",
    description="agents in a row, utilities and constraints of where each spends its time, critics that see neighbours",
    solver=PrimalDual(),
    world="patrol:4",
    steps=300,
    source="Ying et al., Scalable Primal-Dual Actor-Critic Method for Safe Multi-Agent RL with General Utilities, "
    "recalled",
)

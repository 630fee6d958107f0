"""Decentralised partially observable mean field control: one policy that gives a swarm its rules.

Of a swarm of exchangeable agents only the distribution mu over states matters. An upper policy draws a decision rule
h(u | y) given mu; every agent then draws `u ~ h(. | y)` from its own observation, and in the limit

    mu'(z) = sum_{x, y, u} mu(x) P(y | x, mu) h(u | y) P(z | x, u, mu).

That is a process of one agent with the state mu and the action h, which a plain policy gradient solves. Executed it is
decentral: noise of the upper policy is dropped, and mu is what the recursion above says it is by now, which every agent
can compute for itself, so that agents act on nothing but what they observe and the time.

Source: "Learning Decentralized Partially Observable Mean Field Control for Artificial Collective Behavior", recalled.
Ours are: the upper policy is Gaussian over the rule's logits, linear in (1, reward of mu, its square); the gradient is
REINFORCE with returns to go and the batch's mean at that time and start as baseline (the paper takes PPO); places are
few, so mu is a histogram and needs no kernels.
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
from hocket.methods.marl.dec_pomfc.swarms import Swarm

FEATURES = 3


@dataclass(frozen=True)
class UpperPolicy(Solver):
    """See the module.

    Attributes:
        agents: of the swarm that is learnt in; 0 is the limit of infinitely many. batch: episodes from each start.
        rate, noise: the step, and the deviation of logits that are tried.
    """

    world: ClassVar[type] = Swarm

    agents: int = 0
    batch: int = 16
    rate: float = 2.0
    noise: float = 0.5

    def __post_init__(self) -> None:
        if self.agents < 0 or self.batch < 2 or self.rate < 0 or self.noise <= 0:
            raise ConfigurationError(
                f"method.agents = {self.agents}, method.batch = {self.batch}, method.rate = {self.rate}, "
                f"method.noise = {self.noise}: agents and rate are at least 0, noise is above 0, batch at least 2"
            )

    def init(self, world: Swarm, key: Key) -> State:
        return {"weights": np.zeros((FEATURES, *world.rule))}

    def step(self, world: Swarm, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        climb, reached = self.gradient(world, state["weights"], key)
        return {"weights": state["weights"] + self.rate * climb}, {"return": reached}

    def gradient(self, world: Swarm, weights: Array, key: Key) -> tuple[Array, float]:
        """`[F, Y, U]`, of the mean return over steps, and the mean return itself."""
        starts = np.broadcast_to(world.starts, (self.batch, *world.starts.shape))
        spread = world.placed(self.agents, starts, key.derive("start")) if self.agents else starts
        scores, rewards = [], []
        for step in range(world.steps):
            seen = features(world, spread)
            noise = key.derive("noise", step).numpy().normal(size=(*spread.shape[:-1], *world.rule))
            rule = softmax(np.tensordot(seen, weights, 1) + self.noise * noise)
            scores.append(seen[..., :, None, None] * noise[..., None, :, :] / self.noise)
            if self.agents:
                spread = world.drawn(spread, rule, self.agents, key.derive("agents", step))
            else:
                spread = world.onward(spread, rule)
            rewards.append(world.reward(spread))
        earned = np.stack(rewards) / world.steps
        ahead = earned[::-1].cumsum(0)[::-1]
        better = ahead - ahead.mean(1, keepdims=True)
        climb: Array = np.einsum("tbc,tbcfyu->fyu", better, np.stack(scores)) / (self.batch * len(world.starts))
        return climb, float(earned.sum(0).mean())

    def answer(self, world: Swarm, state: State) -> Array:
        return executed(world, state["weights"])


def features(world: Swarm, spread: Array) -> Array:
    """`[.., F]`, what the upper policy reads of a distribution."""
    order = world.reward(spread)
    return np.stack([np.ones_like(order), order, order**2], -1)


def executed(world: Swarm, weights: Array) -> Array:
    """`[C, T, Y, U]`, the rules that the upper policy gives from each start, without noise, along the recursion."""
    spread, rules = world.starts, []
    for _ in range(world.steps):
        rules.append(softmax(np.tensordot(features(world, spread), weights, 1)))
        spread = world.onward(spread, rules[-1])
    return np.stack(rules, 1)


DEC_POMFC = SolverMethod(
    name="dec-pomfc",
    description="one policy that gives a swarm its rules, learnt in the limit of infinitely many",
    solver=UpperPolicy(),
    world="ring:12",
    steps=300,
    source="Learning Decentralized Partially Observable Mean Field Control for Artificial Collective Behavior, "
    "recalled",
)

"""Joint policies that are Bayesian networks over agents, whose edges are learnt and taken away again.

    pi(a | s) = prod_i pi_i(a_i | s, a_Pa(i)),        grad J = sum_i E[ grad log pi_i(a_i | s, a_Pa(i)) A_i ],

with A_i the advantage of a_i when the moves of its parents are known and all others averaged over. Agents that choose
independently can be held fast where two of them would have to change at once; with all edges there is no such place.
Edges depend on the state, and are annealed, so that in the end each agent decides alone.

Source: "Context-Aware Bayesian Network Actor-Critic Methods for Cooperative Multi-Agent Reinforcement Learning",
recalled. Ours are: the order of the agents is the world's (the paper learns a permutation too); logits are
`b_i(s, a_i) + sum_{j < i} e_ij(s) w_ij(s, a_j, a_i)`, so that an edge is one number, the logistic of what is learnt,
times what annealing leaves; values are exact; and each slope is divided by how often it is met, as a natural gradient
does, since the plain one may give up what it meets ever more rarely before its edges have learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.exact.cooperative import Cooperative, joint, localised
from hocket.exact.mdp import Array, softmax
from hocket.exact.solver import Solver, SolverMethod, State

RARE = 1e-12
"""Added to how often something is met."""


@dataclass(frozen=True)
class BayesianNetwork(Solver):
    """See the module.

    Attributes:
        edges: else agents are independent from the start. rate: of the ascent. noise: of the first logits.
        kept: steps with all edges. annealed: steps in which they go, from then on in proportion.
    """

    world: ClassVar[type] = Cooperative

    edges: bool = True
    rate: float = 0.1
    noise: float = 0.1
    kept: int = 400
    annealed: int = 400

    def __post_init__(self) -> None:
        if self.rate < 0 or self.noise < 0 or self.kept < 0 or self.annealed < 1:
            raise ConfigurationError(
                f"method.rate = {self.rate}, method.noise = {self.noise}, method.kept = {self.kept}, method.annealed = "
                f"{self.annealed}: none is below 0, and annealed is at least 1"
            )

    def init(self, world: Cooperative, key: Key) -> State:
        draw, states = key.derive("logits").numpy(), world.process.states
        found = {"steps": np.array(0)}
        for agent, own in enumerate(world.moves):
            found[f"base {agent}"] = self.noise * draw.normal(size=(states, own))
            for parent, other in enumerate(world.moves[:agent]):
                found[f"word {parent} {agent}"] = self.noise * draw.normal(size=(states, other, own))
                found[f"gate {parent} {agent}"] = np.full(states, 2.0)
        return found

    def step(self, world: Cooperative, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        left = self.left(state)
        slopes, met = gradient(world, state, left)
        moved = {name: state[name] + self.rate * slope / (met[name] + RARE) for name, slope in slopes.items()}
        gates = [float(np.mean(1 / (1 + np.exp(-state[name])))) for name in state if name.startswith("gate")]
        return {**state, **moved, "steps": state["steps"] + 1}, {"edges": float(left * np.mean(gates or [0.0]))}

    def left(self, state: State) -> float:
        """The share of every edge that annealing leaves."""
        gone = (int(state["steps"]) - self.kept) / self.annealed
        return float(np.clip(1 - gone, 0, 1)) if self.edges else 0.0

    def answer(self, world: Cooperative, state: State) -> Array:
        return joint(policies(world, state, self.left(state))).reshape(world.process.states, -1)


def policies(world: Cooperative, state: State, left: float) -> list[Array]:
    """Of each agent `pi_i(a_i | s, a_1..a_{i-1})`, `[S, A_1, .., A_i]`."""
    found = []
    for agent, own in enumerate(world.moves):
        logits = np.zeros((world.process.states, *world.moves[: agent + 1]))
        logits = logits + _spread(state[f"base {agent}"], (agent,), agent)
        for parent in range(agent):
            edge = left / (1 + np.exp(-state[f"gate {parent} {agent}"]))
            logits = logits + _spread(edge[:, None, None] * state[f"word {parent} {agent}"], (parent, agent), agent)
        assert logits.shape[-1] == own
        found.append(softmax(logits))
    return found


def gradient(world: Cooperative, state: State, left: float) -> tuple[dict[str, Array], dict[str, Array]]:
    """Of J, by the policy gradient above, for everything that is learnt, by name; and how often each is met."""
    chain = policies(world, state, left)
    whole = joint(chain)
    flat = whole.reshape(world.process.states, -1)
    visits = world.process.visits(flat).sum(-1) / (1 - world.process.discount)
    quality = world.process.solved(flat).quality.reshape(whole.shape)
    found: dict[str, Array] = {}
    met: dict[str, Array] = {}
    seen = visits
    for agent, (own, value) in enumerate(zip(chain, localised(chain, quality), strict=True)):
        seen = seen[..., None] * own
        weight = seen * (value - (own * value).sum(-1, keepdims=True))
        found[f"base {agent}"], met[f"base {agent}"] = _gathered(weight, (agent,)), _gathered(seen, (agent,))
        for parent in range(agent):
            pair, name = _gathered(weight, (parent, agent)), f"{parent} {agent}"
            share, word = 1 / (1 + np.exp(-state[f"gate {name}"])), state[f"word {name}"]
            found[f"word {name}"] = left * share[:, None, None] * pair
            found[f"gate {name}"] = left * share * (1 - share) * (pair * word).sum((1, 2))
            met[f"word {name}"], met[f"gate {name}"] = _gathered(seen, (parent, agent)), visits
    return found, met


def _spread(table: Array, agents: tuple[int, ...], last: int) -> Array:
    """`[S, moves of agents]` with axes of size 1 for the others up to `last`."""
    shape = [len(table)] + [1] * (last + 1)
    for place, agent in enumerate(agents):
        shape[agent + 1] = table.shape[place + 1]
    return table.reshape(shape)


def _gathered(weight: Array, agents: tuple[int, ...]) -> Array:
    """The sum over all agents' moves but these."""
    others = tuple(axis for axis in range(1, weight.ndim) if axis - 1 not in agents)
    return np.asarray(weight.sum(others))


BAYESIAN_NETWORK_ACTOR_CRITIC = SolverMethod(
    name="bayesian-network-actor-critic",
    description="joint policies that are networks over agents, whose edges are learnt and taken away again",
    solver=BayesianNetwork(),
    world="penalty:2",
    steps=1000,
    source="Context-Aware Bayesian Network Actor-Critic Methods for Cooperative Multi-Agent Reinforcement Learning, "
    "recalled",
    note="tables with exact values, in the world's order; the actor-critic with networks, for worlds that do not fit "
    "into arrays, is not built",
)

"""Joint policies that are Bayesian networks over agents, whose edges are learnt and taken away again.

    pi(a | s) = prod_i pi_i(a_i | s, a_Pa(i)),        grad J = sum_i E[ grad log pi_i(a_i | s, a_Pa(i)) A_i ],

with A_i the advantage of a_i when the moves of its parents are known and all others averaged over. Agents that choose
independently can be held fast where two of them would have to change at once; with all edges there is no such place.
Edges depend on the state, and are annealed, so that in the end each agent decides alone.

With networks (`hocket train`) it is MAPPO in worlds with `?networked=true` (`Networked` of
`hocket.methods.marl.bayesian_network_actor_critic.message_graph`): in every step of the world a part of the shared
network draws, from the joint state, an order of the agents and which of the edges along it are open; agents move in
that order, told their parents' moves. The part learns with the actor, straight through the gates
(`hocket.methods.marl.bayesian_network_actor_critic.networks`). The critic reads the joint state and the parents' moves,
so that what it predicts is the mean of A_i's value before a_i. `FadingNetwork` lets the networks act while they are
learnt and takes more and more edges away; evaluation is without any.

In tables (`hocket solve`) values are exact.

Source: Chen and Zhang, "Context-Aware Bayesian Network Actor-Critic Methods for Cooperative Multi-Agent Reinforcement
Learning", arXiv:2306.01920; the text was not at hand, and how networks are drawn, learnt and read is as in the authors'
code. Ours are: a permutation by perturbed scores, of which a softmax over pairs is the slope, where that code has
Sinkhorn's; a gate's value is the one that was drawn, and not another draw, so that ratios begin at 1; edges are taken
away at a pace that is set, where the code penalises them. In tables the order of the agents is the world's; logits are
`b_i(s, a_i) + sum_{j < i} e_ij(s) w_ij(s, a_j, a_i)`, so that an edge is one number, the logistic of what is learnt,
times what annealing leaves; and each slope is divided by how often it is met, as a natural gradient does, since the
plain one may give up what it meets ever more rarely before its edges have learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.core.requirements import Requirement
from hocket.lab.exact.cooperative import Cooperative, joint, localised
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.base.mappo import MAPPO
from hocket.methods.marl.bayesian_network_actor_critic.message_graph import Networked
from hocket.methods.marl.bayesian_network_actor_critic.networks import AlongParents
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Player

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


BAYESIAN_NETWORK_TABLES = SolverMethod(
    name="bayesian-network-actor-critic",
    description="joint policies that are networks over agents, whose edges are learnt and taken away again",
    solver=BayesianNetwork(),
    world="penalty:2",
    steps=1000,
    source="Chen and Zhang, Context-Aware Bayesian Network Actor-Critic Methods, arXiv:2306.01920",
)

# ---------------------------------------------------------------- with networks


@dataclass(frozen=True)
class FadingNetwork(Hook):
    """Agents decide along networks that their policy draws, of which each edge is kept with a probability that falls.

    It is 1 in the first `kept` steps, then falls in proportion for `annealed` steps to 0, where all move at once and
    nobody is told anything. Evaluation is of agents that decide alone. The metric `network/edges` is the share of all
    pairs that told something, `network/left` the probability.

    Attributes:
        kept: steps with all edges. annealed: steps in which they go.
    """

    kept: int = 20
    annealed: int = 20

    def __post_init__(self) -> None:
        if self.kept < 0 or self.annealed < 1:
            raise ValueError(f"kept and annealed must be at least 0 and 1, not {self.kept} and {self.annealed}")

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer) or not isinstance(run.player.world, Networked):
            raise ConfigurationError(
                f"recipe {run.method} has agents decide along networks, and task {run.task.name} shows them none; add "
                "networked=true to the settings of a joint world, such as mpe:spread?agents=2&networked=true"
            )
        if len(set(run.player.seats.values())) > 1:
            raise ConfigurationError(
                f"recipe {run.method} draws one network for all agents, whose policy they share; drop --cast and roles "
                "with policies of their own"
            )

    def left(self, step: int) -> float:
        """The share of edges that annealing leaves at `step` (from 1)."""
        return float(np.clip(1 - (step - 1 - self.kept) / self.annealed, 0, 1))

    def seat(self, player: Player, run: HookContext, step: int, memory: object) -> Player:
        own, left = cast(JointPlayer, player), self.left(step)
        if not left:
            return player
        (policy,) = {own.policies[name] for name in own.seats.values()}
        actor = cast(AlongParents, cast(ControlPolicy, policy).module.actor)
        world = replace(cast(Networked, own.world), networks=actor.drawn, left=left)
        return replace(own, world=world, _open=[])

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        if result.batch is not None:
            world = cast(Networked, cast(JointPlayer, run.player).world)
            result.metrics |= {"network/edges": told(result.batch, world), "network/left": self.left(step)}
        return memory


def told(batch: Batch, world: Networked) -> float:
    """The share of all pairs of agents of which one was told the other's move."""
    layout = world.layout
    starts = np.cumsum((0, *layout.parts))
    rows = np.concatenate([np.asarray(one) for one in batch.observation])
    parents, moves = rows[:, starts[4] : starts[5]], rows[:, starts[6] : starts[7]]
    heard = parents * moves.reshape(len(rows), layout.agents, layout.moves).sum(-1)
    return float(2 * heard.sum(1).mean() / (layout.agents - 1))


BAYESIAN_NETWORK_ACTOR_CRITIC = MAPPO.but(
    name="bayesian-network-actor-critic",
    title="Actor-critic of agents that decide along a learnt Bayesian network",
    source="Chen and Zhang, Context-Aware Bayesian Network Actor-Critic Methods, arXiv:2306.01920",
    catalogue_ids=("bayesian-network-actor-critic",),
    axes=("team", "policy", "credit"),
    formula="for every agent:  MAPPO of pi_i(a_i | o_i, a_Pa(i)),  V of the joint state, o_i and a_Pa(i);  "
    "j in Pa(i):  [z_j > z_i] [u_ji > 0] kept_ji,  z = score(s) + Gumbel,  u = logit(s) + logistic,  "
    "slopes of sigma(z_j - z_i) sigma(u_ji)",
    conventions={
        **MAPPO.conventions,
        "network": "drawn anew in every step of the world, from the joint state",
        "straight through": "a gate is 0 or 1 as drawn when sampled, its slope is logistic, at temperature 1",
        "first edges": "0.88 open",
        "annealing": "an edge is kept with probability 1 for 20 steps, which falls to 0 in 20 more; the code penalises "
        "the share of open edges",
        "evaluation": "agents decide alone",
        "history": "what an agent sees now; the code's networks have recurrent layers for StarCraft",
    },
    task="mpe:spread?agents=2&networked=true",
    requires=(Requirement.AGENTS,),
    hooks=(FadingNetwork(),),
)

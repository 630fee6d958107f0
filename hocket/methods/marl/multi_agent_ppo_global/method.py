"""Multi-agent PPO that reaches the global optimum by local steps (Zhao et al., arXiv:2305.04819).

Agents decide in an order, each knowing what those before it chose: `pi_i(a_i | s, a_1..a_{i-1})`, in worlds with
`?sequenced=true` (`Sequenced` of `hocket.zoo.joint.sequential_world`). The multi-agent performance difference
then splits into one term per agent, of its localised action value `Q_i(s, a_1..a_i)`, which averages over those after
it; so each agent's own KL-regularised step, `pi_i' ~ pi_i exp(Q_i / beta)`, climbs the joint return. Here the step is
the surrogate with a KL drift of MDPO, from advantages along the agent's own decisions, whose critic reads the joint
state and the moves made so far: what it predicts is `E[Q_i]` before `a_i`, so the advantage is that of `Q_i`.

From records alone (`hocket solve`) the same step is made of a lower bound, `PessimisticSteps`. Of a joint policy it has

    Q(s, a) = max(r^ + discount P^ V - b, least),   V(s) = E_pi Q,   P(all Q below the true ones) >= 1 - doubt,
    b(s, a) = (high - low) (sqrt(ln(4 S A / doubt) / 2n)
              + discount / (1 - discount) / 2 sqrt(2 (ln(2^S - 2) + ln(2 S A / doubt)) / n))

with r^ and P^ what n records of (s, a) say: Hoeffding's bound of the mean payment, and Weissman's of the distance of
shares, which holds for all values at once, so for every policy that the steps come to. Means of lower bounds are lower
bounds, so that `Q_i`, Q averaged over later agents' moves, is one as well. Steps never lower the bound, whatever was
chosen before an agent, so what it can gain in all is at most the range of values; with the performance difference,
after K steps of n agents and for a best policy with visits d*,

    J* - J <= ((sum_i ln A_i / rate + n (high - low) / (1 - discount)) / K + 2 E_d* b) / (1 - discount),

where records need to cover what best play meets, and no more. The paper's text was not at hand but for its abstract:
pessimism in the evaluation is the paper's, this form of it for tables and the inequality are derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.lab.exact.cooperative import Cooperative, joint, localised
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.group_relative.mdpo import MDPO
from hocket.methods.marl.multi_agent_ppo_global.records import Records, read_records, recorded
from hocket.objectives.central import CentralValueLoss

STILL = 1e-12
"""The change of a value, relative to what is possible, at which an evaluation ends."""

MULTI_AGENT_PPO_GLOBAL = MDPO.but(
    name="multi-agent-ppo-global",
    title="Multi-agent PPO with sequential policies and localised values",
    source="Zhao et al., Local Optimization Achieves Global Optimality in MARL, arXiv:2305.04819",
    catalogue_ids=("multi-agent-ppo-global",),
    family="multi-agent",
    axes=("team", "objective", "analysis"),
    formula="L = -mean_t [r_t A_t - beta (r_t log r_t - r_t + 1)] + 1/2 mean_t (V_t - y_t)^2,  "
    "r of pi_i(a_i | s, a_<i),  A of Q_i(s, a_1..a_i), V of the joint state and a_<i",
    conventions={
        **MDPO.conventions,
        "order": "the world's, the same at every step",
        "beta": "2 on whitened advantages (drift.first and last are 1/beta); constant, as the paper's beta sqrt(K) is "
        "for a number K of iterations given before",
        "network": "one for all agents, told apart by a one-hot number; the paper's are overparametrised and apart",
        "localised value": "GAE along the agent's own decisions, its critic central; the paper fits Q_i itself",
        "recorded data": "`hocket solve --method multi-agent-ppo-global`: tables, with a lower bound of Q_i",
    },
    task="mpe:spread?agents=2&sequenced=true",
    requires=(Requirement.IN_TURN,),
    regularisers=(CentralValueLoss(coefficient=0.5, aggregate="token-mean"),),
    **{"objective.drift.first": 0.5, "objective.drift.last": 0.5},
)


@dataclass(frozen=True)
class PessimisticSteps(Solver):
    """Local steps on a lower bound of what records say; see the module.

    Records are drawn once, from play that is best but for a share `slip` of decisions made evenly, or read from `data`.

    Attributes:
        rate: 1 / beta, of the steps. pessimism: what `b` is taken times; 1 makes Q a lower bound, 0 takes records at
            their word. doubt: with what probability the bound may fail. records, slip: how many, and of what play.
        data: an .npz of records instead: `state` [N], `action` [N, n], `reward` [N], `after` [N].
    """

    world: ClassVar[type] = Cooperative

    rate: float = 1.0
    pessimism: float = 1.0
    doubt: float = 0.1
    records: int = 4000
    slip: float = 0.05
    data: str = ""

    def __post_init__(self) -> None:
        fine = self.rate >= 0 and self.pessimism >= 0 and 0 < self.doubt < 1
        if not fine or self.records < 1 or not 0 <= self.slip <= 1:
            raise ConfigurationError(
                f"method.rate = {self.rate}, method.pessimism = {self.pessimism}, method.doubt = {self.doubt}, "
                f"method.records = {self.records}, method.slip = {self.slip}: rate and pessimism are at least 0, doubt "
                "above 0 and below 1, records at least 1, slip a share"
            )

    def init(self, world: Cooperative, key: Key) -> State:
        return self.begun(world, self.gathered(world, key.derive("records")))

    def gathered(self, world: Cooperative, key: Key) -> Records:
        """The records that it learns from."""
        if self.data:
            return read_records(Path(self.data), world)
        played = (1 - self.slip) * world.process.best.policy + self.slip * world.process.even
        return recorded(world, played, self.records, key)

    def begun(self, world: Cooperative, found: Records) -> State:
        """Even policies, and their values."""
        shapes = [(world.process.states, *world.moves[: agent + 1]) for agent in range(len(world.moves))]
        logits = {f"logits {agent}": np.zeros(shape) for agent, shape in enumerate(shapes)}
        span = np.array([found.low, found.high])
        held = {"seen": found.seen, "paid": found.paid, "span": span, **logits}
        return {**held, "quality": self.evaluated(world, found, policies(world, held))}

    def step(self, world: Cooperative, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        local = localised(policies(world, state), state["quality"].reshape(-1, *world.moves))
        moved = {f"logits {agent}": state[f"logits {agent}"] + self.rate * of for agent, of in enumerate(local)}
        held = {**state, **moved}
        chain = policies(world, held)
        quality = self.evaluated(world, records_of(state), chain, state["quality"])
        shares = joint(chain).reshape(quality.shape)
        told = {"bound": float(world.process.start @ (shares * quality).sum(-1))}
        return {**held, "quality": quality}, told

    def penalty(self, world: Cooperative, found: Records) -> Array:
        """`b` `[S, A]`, infinite where nothing was recorded; 0 without pessimism."""
        if not self.pessimism:
            return np.zeros_like(found.paid)
        states, pairs = world.process.states, found.paid.size
        discount = world.process.discount
        # ln(2^S - 2), of as many states as there are; the shares of a single one are known.
        subsets = states * math.log(2) + math.log1p(-(2.0 ** (1 - states))) if states > 1 else -math.inf
        shares = max(subsets + math.log(2 * pairs / self.doubt), 0.0)
        paid = math.sqrt(math.log(4 * pairs / self.doubt) / 2)
        moved = discount / (1 - discount) / 2 * math.sqrt(2 * shares)
        with np.errstate(divide="ignore"):
            width: Array = self.pessimism * (found.high - found.low) * (paid + moved) / np.sqrt(found.times)
        return width

    def evaluated(
        self, world: Cooperative, found: Records, chain: Sequence[Array], first: Array | None = None
    ) -> Array:
        """The lower bound of the values of a joint policy, `[S, A]`, by sweeps, from `first` if it is given."""
        process, reward, transition = world.process, found.reward - self.penalty(world, found), found.transition
        shares = joint(chain).reshape(process.reward.shape)
        least, most = (of / (1 - process.discount) for of in (found.low, found.high))
        quality = np.full_like(reward, least) if first is None else first
        change = math.inf
        while change > STILL * max(most - least, STILL):
            value = (shares * quality).sum(-1)
            after = np.maximum(reward + process.discount * transition @ value, least)
            change, quality = float(np.abs(after - quality).max()), after
        return quality

    def answer(self, world: Cooperative, state: State) -> Array:
        return joint(policies(world, state)).reshape(world.process.states, -1)


def policies(world: Cooperative, state: State) -> list[Array]:
    """Of each agent `pi_i(a_i | s, a_1..a_{i-1})`, `[S, A_1, .., A_i]`."""
    return [softmax(state[f"logits {agent}"]) for agent in range(len(world.moves))]


def records_of(state: State) -> Records:
    """Those that a state holds."""
    low, high = state["span"].tolist()
    return Records(state["seen"], state["paid"], low, high)


def promised(how: PessimisticSteps, world: Cooperative, found: Records, steps: int) -> float:
    """What J* less the return after `steps` steps is at most, unless the bound fails; see the module."""
    process = world.process
    visits = process.visits(process.best.policy)
    width = float((visits * np.where(visits > 0, how.penalty(world, found), 0.0)).sum())
    gained = len(world.moves) * (found.high - found.low) / (1 - process.discount)
    learnt = sum(math.log(own) for own in world.moves) / how.rate + gained
    return (learnt / steps + 2 * width) / (1 - process.discount)


MULTI_AGENT_PPO_GLOBAL_RECORDED = SolverMethod(
    name="multi-agent-ppo-global",
    description="local steps of agents in turn on a lower bound of what records say of their values",
    solver=PessimisticSteps(),
    world="crew:4x3x2",
    steps=200,
    source="Zhao et al., Local Optimization Achieves Global Optimality in MARL, arXiv:2305.04819",
)

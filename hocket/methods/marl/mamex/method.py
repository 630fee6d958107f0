"""MAMEX: equilibria of a table whose entries are as good as the data allow, at a price for what they speak against.

In round k every pair of certain policies has, for each player, the optimistic payoff

    V_i(pi) = max_f [ V_i^(f, pi) - eta L^(k-1)(f) ]

over hypotheses f, where L is how badly f explains the data (here the negative log-likelihood of the transitions). An
equilibrium of this table of pay is a mixture of pairs; one is drawn from it, played, and what was seen is added to the
data. There is no confidence set and no posterior to draw from. The smaller eta, the longer good news is believed.

Source: "Sample-Efficient Multi-Agent RL: An Optimization Perspective", recalled. Ours are: the hypotheses are a list
that the world gives, the truth among them, of which the best is found by trying all, and rewards are known; the
equilibrium is a coarse correlated one, by regret matching; losses count from the least one, which moves no equilibrium.
However dear a loss is, hope is free where the data do not tell hypotheses apart (`doors`); where what is seen elsewhere
always speaks a little for those without hope (`rumours`) a large eta fails, as the first of the likeliest hypotheses
alone does (`optimistic` off).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.marl.mamex.markov_games import MarkovGame, Walk, coarse_equilibrium

IMPOSSIBLE = 1e-12
"""The probability that a transition counts with which a hypothesis rules out."""


@dataclass(frozen=True)
class OptimisticTable(Solver):
    """See the module.

    Attributes:
        eta: the price of a loss. optimistic: else the table is that of the first hypothesis with the least loss.
        rounds: of regret matching for each table.
    """

    world: ClassVar[type] = MarkovGame

    eta: float = 0.1
    optimistic: bool = True
    rounds: int = 1000

    def __post_init__(self) -> None:
        if self.eta < 0 or self.rounds < 2:
            raise ConfigurationError(
                f"method.eta = {self.eta}, method.rounds = {self.rounds}: eta is at least 0, rounds at least 2"
            )

    def init(self, world: MarkovGame, key: Key) -> State:
        pairs = len(world.policies) ** 2
        return {"losses": np.zeros(len(world.candidates)), "mixture": np.full(pairs, 1 / pairs)}

    def step(self, world: MarkovGame, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        table = self.table(world, state["losses"])
        mixture = coarse_equilibrium(table, self.rounds).reshape(-1)
        pair = int(key.derive("pair").numpy().choice(len(mixture), p=mixture / mixture.sum()))
        losses = state["losses"] + loss(world, world.walk(pair, key.derive("walk")))
        hoped = float((table.reshape(2, -1) @ mixture).mean())
        believed = float((losses - losses.min() < 1).sum())
        return {"losses": losses, "mixture": mixture}, {"hoped": hoped, "believed": believed}

    def table(self, world: MarkovGame, losses: Array) -> Array:
        """`[2, P, P]`, what pairs are taken to pay."""
        if not self.optimistic:
            sure: Array = world.payoffs[int(losses.argmin())]
            return sure
        behind = losses - losses.min()
        found: Array = (world.payoffs - self.eta * behind[:, None, None, None]).max(0)
        return found

    def answer(self, world: MarkovGame, state: State) -> Array:
        return state["mixture"]


def loss(world: MarkovGame, walk: Walk) -> Array:
    """`[K]`, the negative log-likelihood of an episode's transitions under each hypothesis."""
    own, other = walk.moves.T
    likely = world.candidates[:, walk.states[:-1], own, other, walk.states[1:]]
    found: Array = -np.log(np.maximum(likely, IMPOSSIBLE)).sum(-1)
    return found


MAMEX = SolverMethod(
    name="mamex",
    description="two who play equilibria of what the data still allow to hope for",
    solver=OptimisticTable(),
    world="doors:3",
    steps=200,
    source="Sample-Efficient Multi-Agent RL: An Optimization Perspective, recalled",
)

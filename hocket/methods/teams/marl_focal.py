"""Multi-agent RL with focal diversity: who is asked, and whose word counts how much, by two agents that learn.

The decider picks a committee for each question, `pi(S | kind) ~ exp(w_kind . x_S)`, where x_S is the committee's focal
diversity (see `focal_diversity`), its members' mean accuracy and its size, on questions of that
kind seen so far. The fuser weighs votes, `p(answer) ~ exp(sum of v_kind,m over members with that answer)`. Both are
paid for the fused answer, 1 where it is right less the price of asking, and climb by REINFORCE over committees and
answers drawn; executed, the likeliest committee is asked and the likeliest answer given.

Source: "Multi-Agent Reinforcement Learning with Focal Diversity Optimization"; the index recalled, the two agents from
the abstract. Ours are: policies linear in three figures of a committee and in who speaks; figures are standardised over
committees; a baseline that is the batch's mean of the kind; committees of two to `largest`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, drawn, softmax
from hocket.lab.exact.panels import Ints, Panel
from hocket.lab.exact.solver import Solver, SolverMethod, State

SURE, LEAST = 4.0, 1e-6
"""The first weight of every vote, with which two against one decide; that of one asked and better not heard."""


@dataclass(frozen=True)
class Committees(Solver):
    """See the module.

    Attributes:
        focal: else the decider is not told of diversity. largest: members of a committee at most. batch: questions of a
            step. rate: the step of both.
    """

    world: ClassVar[type] = Panel

    focal: bool = True
    largest: int = 3
    batch: int = 256
    rate: float = 2.0

    def __post_init__(self) -> None:
        if self.largest < 2 or self.batch < 2 or self.rate < 0:
            raise ConfigurationError(
                f"method.largest = {self.largest}, method.batch = {self.batch}, method.rate = {self.rate}: largest and "
                "batch are at least 2, rate at least 0"
            )

    def init(self, world: Panel, key: Key) -> State:
        kinds = int(world.kinds.max()) + 1
        return {
            "decider": np.zeros((kinds, 3)),
            "fuser": np.full((kinds, world.experts), SURE),
            "figures": figures(world, members(world, self.largest), self.focal),  # Kept, since they are dear.
        }

    def step(self, world: Panel, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        draw, asked = key.numpy(), members(world, self.largest)
        place = draw.integers(0, world.shown.stop, self.batch)
        kinds, given = world.kinds[place], world.answers[place]
        chances = softmax(np.einsum("kf,ksf->ks", state["decider"], state["figures"]))
        chosen = drawn(chances[kinds], draw.random(self.batch))
        votes = np.where(asked[chosen], state["fuser"][kinds], 0)
        same = given[:, :, None] == given[:, None, :]
        first = asked[chosen] & ~(np.tril(same, -1) & asked[chosen][:, None]).any(-1)  # Each answer is told once.
        shares = softmax(np.where(first, (same * votes[:, None]).sum(-1), -np.inf))
        speaker = drawn(shares, draw.random(self.batch))
        said = given[np.arange(self.batch), speaker]
        earned = (said == world.truth[place]) - world.price * asked[chosen].sum(-1)
        better = earned - np.array([earned[kinds == kind].mean() for kind in kinds])
        seen = state["figures"][kinds, chosen]  # Less the mean over committees, which the baseline takes out.
        voice = asked[chosen] * ((given == said[:, None]) - (same * shares[:, None]).sum(-1))
        return {
            "decider": state["decider"] + self.rate * _summed(better[:, None] * seen, kinds, state["decider"]),
            "fuser": state["fuser"] + self.rate * _summed(better[:, None] * voice, kinds, state["fuser"]),
            "figures": state["figures"],
        }, {"earned": float(earned.mean()), "asked": float(asked[chosen].sum(-1).mean())}

    def answer(self, world: Panel, state: State) -> Array:
        kinds, asked = world.kinds[world.held], members(world, self.largest)
        best = np.einsum("kf,ksf->ks", state["decider"], state["figures"]).argmax(-1)
        return np.where(asked[best], np.maximum(state["fuser"], LEAST), 0)[kinds]


def focal_diversity(right: NDArray[np.bool_]) -> float:
    """Of members' records `[Q, M]`: 0 where all fail together, 1 where never two do (1 too where nobody fails).

    Of the questions on which a focal member fails let p_j be the share on which exactly j of M do. With
    `P1 = sum_j (j / M) p_j` and `P2 = sum_j j (j - 1) / (M (M - 1)) p_j` its diversity is `1 - P2 / P1`; the mean over
    focal members.
    """
    members = right.shape[1]
    failing = (~right).sum(1)
    found = []
    for member in range(members):
        together = failing[~right[:, member]].astype(np.float64)
        first = float((together / members).mean()) if len(together) else 1.0
        second = float((together * (together - 1)).mean()) / (members * (members - 1)) if len(together) else 0.0
        found.append(1 - second / first)
    return float(np.mean(found))


def members(world: Panel, largest: int) -> Array:
    """`[S, M]`, true for the members of each committee of two to `largest`."""
    sizes = range(2, min(largest, world.experts) + 1)
    chosen = [one for size in sizes for one in itertools.combinations(range(world.experts), size)]
    found = np.zeros((len(chosen), world.experts), bool)
    for row, one in zip(found, chosen, strict=True):
        row[list(one)] = True
    return found


def figures(world: Panel, asked: Array, focal: bool) -> Array:
    """`[C, S, 3]`: diversity, mean accuracy and size of each committee for each kind, standardised over committees."""
    kinds, right = world.kinds[world.shown], world.right[world.shown]
    found = np.zeros((int(world.kinds.max()) + 1, len(asked), 3))
    for kind in range(len(found)):
        for place, committee in enumerate(asked):
            record = right[kinds == kind][:, committee]
            found[kind, place] = focal_diversity(record) if focal else 0, record.mean(), committee.sum()
    spread = found.std(1, keepdims=True)
    standardised: Array = (found - found.mean(1, keepdims=True)) / np.where(spread > 1e-12, spread, 1)
    return standardised


def _summed(rows: Array, kinds: Ints, like: Array) -> Array:
    """The mean of rows, each counted for its kind alone."""
    found = np.zeros_like(like)
    np.add.at(found, kinds, rows / len(rows))
    return found


MARL_FOCAL = SolverMethod(
    name="marl-focal",
    description="who of several experts is asked, and whose word counts how much, by focal diversity",
    solver=Committees(),
    world="panel:2000",
    steps=800,
    source="Multi-Agent Reinforcement Learning with Focal Diversity Optimization, the index recalled",
    note="of language models' answers on record, five alike, it is worth no more than the three most accurate: its "
    "gain is seen with experts that are made up, of whom some err together",
)

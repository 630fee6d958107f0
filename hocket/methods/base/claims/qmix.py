"""QMIX's claims, and VDN's beside it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.measured_runs import learnt
from hocket.lab.toys.team_rows import ACTIONS, policies_of, team_rows
from hocket.methods.base.qmix import QMIX
from hocket.methods.base.vdn import VDN
from hocket.policies.team_values import MonotoneMixer
from hocket.recipe import Recipe
from hocket.tasks.joint import JointTask
from hocket.types import Quantity

_TABLES = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])
"""What both earn in the second step, by the first agent's earlier move, then by both agents' moves."""


@dataclass(frozen=True)
class _TwoSteps:
    """The first agent's first move chooses a table, and the second moves are paid by it. All see which state it is.

    The best return is 8, by the second table; the first pays 7 whatever is done.
    """

    name: str = "two-steps"
    agents: tuple[str, ...] = ("first", "second")
    seats: tuple[Seat, ...] = (Seat(3, 2),) * 2
    joint: int = 3

    def open(self, width: int) -> JointEnvironment:
        return _Play(width)


class _Play(JointEnvironment):
    def __init__(self, width: int) -> None:
        self.place = np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        self.place[list(slots)] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        first, second = (np.asarray(action, np.int64) for action in actions)
        late = self.place > 0
        paid = np.where(late, _TABLES[np.maximum(self.place - 1, 0), first, second], 0.0)
        self.place = np.where(late, self.place, 1 + first)
        over = np.repeat(late[:, None], 2, 1)
        return Moved(np.repeat(paid[:, None], 2, 1), over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        return [self.state()] * 2

    def state(self) -> NDArray[np.float32]:
        return np.eye(3, dtype=np.float32)[self.place]


claim = Claims("qmix", "arXiv:1803.11485")


@claim("The team's value falls in no agent's value, in any state, and its slopes are the state's.", "eq. 5")
def the_teams_value_falls_in_no_agents_value() -> Finding:
    mixer, rng = MonotoneMixer(4, 5, 8, Key.of(0)).double(), Key.of(0).torch()
    values = torch.randn(200, 4, generator=rng, dtype=torch.float64).requires_grad_()
    slopes = []
    for _ in range(2):
        joint = torch.randn(200, 5, generator=rng, dtype=torch.float64)
        slopes.append(torch.autograd.grad(mixer(values, joint).sum(), values)[0])
    least, apart = min(float(slope.min()) for slope in slopes), float((slopes[0] - slopes[1]).abs().mean())
    return Finding(least >= 0 and apart > 0.05, say(least_slope=least, mean_difference_of_states=apart))


@claim("The team's best joint action, by enumeration, is each agent's own best.", "eq. 4")
def the_teams_best_action_is_each_agents_own_best() -> Finding:
    equal = {recipe.name: _agreement(recipe) for recipe in (VDN, QMIX)}
    return Finding(all(share == 1 for share in equal.values()), say(shares=equal))


def _agreement(recipe: Recipe) -> float:
    """The share of decisions in which an agent's best action is its part of the team's best."""
    (policy,) = policies_of(recipe, shared=True).values()
    batch, joint = team_rows(recipe, shared=True), list(itertools.product(range(ACTIONS), repeat=3))
    count, occurrences = batch.trajectories, batch.occurrences
    values, mine = [], []
    for actions in joint:
        chosen = batch.but(action=torch.tensor(actions).repeat_interleave(count))
        values.append(policy.evaluate(chosen, recipe.needs).get(Quantity.ACTION_VALUE)[:, 0].detach())
    best = torch.tensor(joint)[torch.stack(values).argmax(0)]  # [T, agents]
    part = best[torch.arange(batch.decisions), batch.agent[batch.turn]]
    mine = policy.module.actor(policy.as_read(policy.observed(batch))).argmax(1)
    live = occurrences.decision[occurrences.weight != 0]
    return float((part == mine)[live].double().mean())


@claim(
    "In the two-step game sums settle at 7, and mixtures find 8, in each of 2 seeds.", "section 5, table 2", slow=True
)
def in_the_two_step_game_sums_settle_at_7_and_mixtures_find_8() -> Finding:
    settings = {
        "store.begin": 64,
        "store.rows": 64,
        "store.gamma": 0.99,
        "curriculum.prompts": 16,
        "network.hidden": (16,),
        "objective.values.first": 0.99,
        "objective.values.last": 0.99,
        "update.lr": 5e-3,
        "update.follow_every": 25,
    }
    earned = {
        recipe.name: [learnt(recipe, JointTask(_TwoSteps()), seed, 20, **settings)[1] for seed in range(2)]
        for recipe in (VDN, QMIX)
    }
    return Finding(earned == {"vdn": [7, 7], "qmix": [8, 8]}, say(returns=earned))


claim.shipped(QMIX, without={"objective": VDN.objective}, steps=6)

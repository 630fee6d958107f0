"""QMIX's claims, and VDN's beside it."""

from __future__ import annotations

import itertools

import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.measured_runs import learnt
from hocket.lab.toys.team_rows import ACTIONS, policies_of, team_rows
from hocket.lab.toys.two_steps import TwoSteps
from hocket.methods.base.qmix import QMIX
from hocket.methods.base.vdn import VDN
from hocket.policies.team_values import MonotoneMixer
from hocket.recipe import Recipe
from hocket.tasks.joint import JointTask
from hocket.types import Quantity

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
    values, own = [], []
    for actions in joint:
        chosen = batch.but(action=torch.tensor(actions).repeat_interleave(count))
        values.append(policy.evaluate(chosen, recipe.needs).get(Quantity.ACTION_VALUE)[:, 0].detach())
    best = torch.tensor(joint)[torch.stack(values).argmax(0)]  # [T, agents]
    part = best[torch.arange(batch.decisions), batch.agent[batch.turn]]
    own = policy.module.actor(policy.as_read(policy.observed(batch))).argmax(1)
    live = occurrences.decision[occurrences.weight != 0]
    return float((part == own)[live].double().mean())


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
        recipe.name: [learnt(recipe, JointTask(TwoSteps()), seed, 20, **settings)[1] for seed in range(2)]
        for recipe in (VDN, QMIX)
    }
    return Finding(earned == {"vdn": [7, 7], "qmix": [8, 8]}, say(returns=earned))


claim.shipped(QMIX, without={"objective": VDN.objective}, steps=6)

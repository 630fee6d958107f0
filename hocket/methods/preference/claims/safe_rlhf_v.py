"""Safe RLHF's claims."""

import math
from typing import Any

import torch
from torch import Tensor

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import batches, below, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.preference.safe_rlhf_v import SAFE_RLHF_V, Lagrangian

claim = Claims("safe-rlhf-v", "PKU-Alignment/safe-rlhf, ppo_lag")

REWARD = torch.tensor([1.0, 0.6, 0.0], dtype=torch.float64)
COST = torch.tensor([1.0, 0.2, 0.0], dtype=torch.float64)
# With limit .1 the linear programme mixes the second and the third: half each, at a multiplier of .6 / .2 = 3; the
# first is not worth its cost there.


def settled(shape: Lagrangian, cost: Tensor, steps: int = 12_000, rate: float = 0.2) -> tuple[float, float, Tensor]:
    """The mean cost and multiplier over the last half, and the mean policy, of exact policy gradients on a bandit.

    A little entropy keeps the softmax moving.
    """
    logits, multiplier = torch.zeros(3, dtype=torch.float64), shape.multiplier
    costs, multipliers, policies = 0.0, 0.0, torch.zeros(3, dtype=torch.float64)
    for step in range(steps):
        policy = torch.softmax(logits, 0)
        worth = shape.mixed(REWARD, cost, multiplier) - 0.01 * policy.log()
        logits = logits + rate * policy * (worth - policy @ worth)
        multiplier = shape.raised(multiplier, [float(policy @ cost)])
        if step >= steps // 2:
            costs += float(policy @ cost) / (steps - steps // 2)
            multipliers += multiplier / (steps - steps // 2)
            policies += policy / (steps - steps // 2)
    return costs, multipliers, policies


@claim("Credit and loss are PPO's on (R - lambda C)/(1 + lambda), and the multiplier moves by rate lambda (C - d).")
def credit_and_loss_are_ppos_on_and_the_multiplier_moves_by_rate() -> Finding:
    recipe, gaps = SAFE_RLHF_V.but({"shaping.0.limit": 0.3, "combine.weights": {"reward": 1.0, "cost": 0.0}}), []
    for number, document in enumerate(batches(10, "safe", graded=True)):
        multiplier, told, mixed = 0.5 + number / 4, list[dict[str, Any]](), list[dict[str, Any]]()
        for n, row in enumerate(document["trajectories"]):
            reward, cost = row["scores"]["reward"], n % 3 / 2
            told.append({**row, "scores": {"reward": reward, "cost": cost}})
            mixed.append({**row, "scores": {"reward": (reward - multiplier * cost) / (1 + multiplier)}})
        ours = inspect_rows(recipe, told, **{"shaping.0": {"multiplier": multiplier, "costs": []}})
        gaps.append(gap(ours["gradient"], inspect_rows(PPO_RLHF, mixed)["gradient"]))
    shape = Lagrangian(limit=0.3, rate=0.5, most=2.0)
    gaps.append(abs(math.log(shape.raised(0.8, [1.0, 0.0, 0.5])) - math.log(0.8) - 0.5 * 0.8 * 0.2))
    return below(1e-6, shape.raised(1.99, [9.0]) == 2.0, off=max(gaps))


@claim("On a bandit the mean cost settles within .02 of its limit, and the multiplier near the programme's dual.")
def on_a_bandit_the_mean_cost_settles_within_02_of_its_limit_and() -> Finding:
    cost, multiplier, policy = settled(Lagrangian(limit=0.1), COST)
    return Finding(
        abs(cost - 0.1) < 0.02 and abs(multiplier - 3.0) < 0.6 and float(policy[0]) < 0.05,
        say(cost=cost, multiplier=multiplier, first_answer=float(policy[0])),
    )


@claim("Where the limit is slack the multiplier goes to 0 and what is learnt is plain PPO's.")
def where_the_limit_is_slack_the_multiplier_goes_to_0_and_what_is() -> Finding:
    _, multiplier, policy = settled(Lagrangian(limit=2.0), COST, steps=4000)
    return Finding(
        multiplier < 0.01 and float(policy[0]) > 0.9, say(multiplier=multiplier, first_answer=float(policy[0]))
    )


@claim("With costs three times as large the limit still holds; a fixed weight that held it before does not.")
def with_costs_three_times_as_large_the_limit_still_holds_a_fixed() -> Finding:
    scaled = settled(Lagrangian(limit=0.1), 3 * COST)[0]
    fixed = [settled(Lagrangian(limit=0.1, multiplier=2.5, rate=0.0), one * COST)[0] for one in (1, 3, 1 / 3)]
    return Finding(
        abs(scaled - 0.1) < 0.02 and max(abs(one - 0.1) for one in fixed) > 0.05,
        say(with_multiplier=scaled, fixed_at_1_3_and_a_third=[round(one, 3) for one in fixed]),
    )


@claim(
    "As shipped the limit is 0.1 of the mean over the newest 128 answers, and log lambda moves by 0.1 lambda a step."
)
def as_shipped_the_limit_is_0_1_of_the_mean_over_the_newest_128() -> Finding:
    """From lambda = 1, and to at most 100."""
    shape = SAFE_RLHF_V.shaping[0]
    assert isinstance(shape, Lagrangian)
    (document,) = batches(1, "as shipped", groups=2, samples=3)
    rows, costs = document["trajectories"], [0.5, 1.0, 0.0, 0.25, 0.75, 1.0]

    def after(seen: list[float]) -> tuple[float, list[float]]:
        told = [{**row, "scores": {"reward": 1.0, "cost": c}} for row, c in zip(rows, costs, strict=True)]
        batch = RecordedBatch({"version": 1, "trajectories": told}).batch
        _, state = shape(batch, {**shape.init(), "costs": seen})
        return state["multiplier"], state["costs"]

    gaps = []
    for count in (0, 122, 127):
        seen = [float(number % 7) for number in range(count)]
        multiplier, kept = after(seen)
        wanted = [*seen, *costs][max(0, count + 6 - 128) :]
        gaps += [gap(kept, wanted), abs(multiplier - math.exp(0.1 * 1.0 * (sum(wanted) / len(wanted) - 0.1)))]
    return below(1e-12, off=max(gaps), most=abs(shape.raised(99.9, [9.0]) - 100.0))


claim.shipped(SAFE_RLHF_V, "shaping")

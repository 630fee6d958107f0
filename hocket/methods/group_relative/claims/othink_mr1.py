"""OThink-MR1's claims."""

from __future__ import annotations

import itertools
from functools import partial
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.schedules import Constant, Linear
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, gradient
from hocket.lab.hand_formulas import clipped, off, stale_rows
from hocket.lab.microscope import inspect
from hocket.lab.toys.recorded_answers import drawn, lines
from hocket.lab.toys.training import chances, trained
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.base.sft import SFT
from hocket.methods.group_relative.othink_mr1 import OTHINK_MR1
from hocket.objectives.divergence import kl_estimate
from hocket.recipe import Recipe

claim = Claims("othink-mr1", "arXiv 2503.16081")


@claim("loss and gradient are those counted by hand at the begin, the middle and the end of a run")
def loss_and_gradient_are_those_counted_by_hand_at_the_begin_the() -> Finding:
    cases = [(rows, at) for rows in stale_rows("othink", count=2) for at in (0.0, 0.5, 1.0)]
    gaps = [off(OTHINK_MR1, rows, partial(clipped, kl=0.04 * at), state={"progress": at}) for rows, at in cases]
    return below(1e-12, off_by_hand=max(gaps))


def weighing(weight: Any) -> dict[str, Any]:
    return {"regularisers.0.coefficient": weight}


@claim("With equal ends the schedule is GRPO with KL.")
def with_equal_ends_the_schedule_is_grpo_with_kl() -> Finding:
    held = []
    for seed, progress in itertools.product(range(5), (0.0, 0.3, 1.0)):
        batch = {**drawn(seed), "state": {"progress": progress}}
        for row in batch["trajectories"]:
            row["logp_ref"] = [one - 0.2 for one in row["logp"]]
        level, constant = OTHINK_MR1.but(weighing(Linear(0.04, 0.04))), GRPO_KL.but(weighing(Constant(0.04 * progress)))
        held.append(bool((gradient(level, batch) == gradient(GRPO_KL, batch)).all()))
        held.append(gap(inspect(OTHINK_MR1, batch)["loss"], inspect(constant, batch)["loss"]) <= EXACT)
    return Finding(all(held), f"{sum(held)} of {len(held)} comparisons at progress 0, 0.3 and 1")


@claim("k3 is non-negative and unbiased for KL(pi || ref).", "Schulman 2020")
def k3_is_non_negative_and_unbiased_for_kl() -> Finding:
    noise, off, least = Key.of(1).numpy(), [], []
    for _ in range(200):
        own, other = (torch.log_softmax(torch.from_numpy(noise.normal(size=7) * 2), 0) for _ in range(2))
        k3 = kl_estimate(own - other, "k3")
        least.append(float(k3.min()))
        off.append(abs(float((own.exp() * (k3 - (own - other))).sum())))
    return below(1e-12, min(least) >= 0, largest_gap_to_KL_of_200_pairs=max(off), minus_least_value=-min(least))


RULES = torch.tensor([(1.0, 0.8, 0.8, 0.6, 0, 0, 0, 0), (0.2, 1.0, 1.0, 1.0, 0, 0, 0, 0)], dtype=torch.float64)
"""The task trained on, A, and a related one, B."""
PRIOR = torch.tensor((0.05, 0.2, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1), dtype=torch.float64)
WORLD = World(1, 8, 1, lambda q, answer: float(RULES[0, answer[0]]), metadata=lambda q: {"demonstration": "0"})


def figures(recipe: Recipe) -> tuple[float, ...]:
    """Reward on A, on B, and the KL from the prior after training: means over seeds."""
    rows = []
    for bench in trained(WORLD, recipe, 120, steps=120, start=lambda policy: policy.logits.copy_(PRIOR.log())):
        own = chances(bench)
        rows.append((*(float((own * rule).sum()) for rule in RULES), float((own * (own / PRIOR).log()).sum())))
    return tuple(map(fmean, zip(*rows, strict=True)))


@claim(
    "A rising weight earns on A what constants of its KL earn, bounds the KL, and transfers no worse than SFT.",
    slow=True,
)
def a_rising_weight_earns_on_a_what_constants_of_its_kl_earn_bounds() -> Finding:
    constant = {f"{weight}": figures(OTHINK_MR1.but(weighing(weight))) for weight in (0.0, 0.05, 0.1, 0.2, 0.4)}
    rising, copied = figures(OTHINK_MR1.but(weighing(Linear(0.0, 0.2)))), figures(SFT)[1]
    # Against the constant weights that stray no further than it does.
    holds = all(rising[0] >= row[0] - 0.02 for row in constant.values() if row[2] <= rising[2] + 0.05)
    holds &= rising[2] < constant["0.0"][2] and rising[1] >= copied - 0.02
    best = max(row[0] for row in constant.values())
    text = lines(reward_on_A_on_B_and_KL_rising=rising, constant=constant, SFT_on_B=copied, best_constant_on_A=best)
    return Finding(holds, f"{text}; that a rising weight reaches the best constant's reward is not confirmed")


claim.shipped(
    OTHINK_MR1,
    "regularisers",
    steps=3,
    small="a KL to the policy before training is 0 in the first step, and small in those after it",
)

"""Claims of MMR1's variance-aware sampling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

import torch

from hocket.core.keys import Key
from hocket.curriculum.weighted import Even
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.groups import Groups
from hocket.lab.policy import Tabular
from hocket.lab.toys.rates import coins, ledger_of
from hocket.lab.toys.rewarded import lines
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.mmr1_vas import MMR1_VAS
from hocket.recipe import Recipe

claim = Claims("mmr1-vas", "arXiv:2509.21268")
UNIFORM = MMR1_VAS.but({"curriculum.value": Even()}, name="uniform")


@claim(
    "The expected gradient of a group grows with p (1 - p): without scaling its norm is sqrt(2) (G - 1)/G p (1 - p), "
    "and GRPO's is never below that of the variance."
)
def _() -> Finding:
    rates, exact, least, size = (0.02, 0.1, 0.25, 0.4, 0.5, 0.7, 0.95), 0.0, float("inf"), 4
    norms = dict[float, float]()
    for rate in rates:
        world, start = coins((rate,))
        policy = Tabular(world)
        with torch.no_grad():
            start(policy)
        group = Groups(policy)
        bare = DR_GRPO.but({"objective.aggregate": "sequence-sum"})
        plain, scaled = (float(group.gradient(one, size).norm()) for one in (bare, GRPO))
        variance = rate * (1 - rate)
        exact = max(exact, abs(plain - 2**0.5 * (size - 1) / size * variance))
        least = min(least, scaled - variance)
        norms[variance] = scaled
    ordered = [norms[one] for one in sorted(norms)]
    rising = all(one <= other + 1e-12 for one, other in pairwise(ordered))
    return Finding(exact < 1e-9 and least > 0 and rising, say(off_exact=exact, least_above_variance=least))


@claim("A share lambda is drawn in proportion to p (1 - p), the rest evenly; lambda = 0 is uniform.")
def _() -> Finding:
    world, _ = coins((0.5,) * 4)
    ledger = ledger_of(0.0, 0.1, 0.5, 1.0)
    scores, found = [0.0, 0.09, 0.25, 0.0], dict[float, float]()
    for even in (0.5, 1.0, 0.0):
        asking = MMR1_VAS.but({"curriculum.even": even}).curriculum
        drawn = [asking(world, 4 + n, 1, ledger, Key.of(0))[0].id for n in range(3000)]
        wanted = [(1 - even) * one / sum(scores) + even / 4 for one in scores]
        found[even] = gap([drawn.count(f"lab/{n}") / 3000 for n in range(4)], wanted)
    return Finding(max(found.values()) < 0.03, say(off_by_share_drawn_evenly=str(found)))


DEAD, ALIKE = (*[0.9995] * 17, *[0.4] * 7), (0.3,) * 24


def steps_to(success: float, rates: Sequence[float], recipe: Recipe) -> list[float]:
    """Of four seeds, with four scenarios in each step."""
    world, start = coins(rates)
    made = [Bench(world, recipe, seed, start=start, lr=0.1, prompts=4).run(78, every=2) for seed in range(4)]
    return [float(bench.first(success) or 99) for bench in made]


@claim(
    "With 70 % of scenarios dead the target takes at most 3/4 of the samples of even draws; among alike ones no fewer."
)
def _() -> Finding:
    dead = {one.name: steps_to(0.98, DEAD, one) for one in (MMR1_VAS, UNIFORM)}
    alike = {one.name: steps_to(0.7, ALIKE, one) for one in (MMR1_VAS, UNIFORM)}
    ratio, same = (fmean(side["mmr1-vas"]) / fmean(side["uniform"]) for side in (dead, alike))
    return Finding(ratio < 0.75 and same > 0.95, lines(ratio=ratio, steps=dead, ratio_of_alike=same, alike=alike))


claim.shipped(
    MMR1_VAS,
    without={"curriculum.value": Even()},
    task="worked_sums",
    settings={"curriculum.pool": 12, "curriculum.prompts": 4},
    steps=5,
)

"""What othink-mr1 claims."""

from __future__ import annotations

import itertools
import math
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.schedules import Constant, Linear
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import SEEDS, chances, drawn, same, shown, trained
from hocket.lab.world import World
from hocket.objectives.divergence import kl_estimate
from hocket.recipes import find

claim = Claims("othink-mr1", "arXiv 2503.16081")


OTHINK = find("othink-mr1")


@claim("With equal ends the schedule is GRPO with KL.")
def level_schedule_is_grpo() -> Finding:
    """With beta_min = beta_max it is GRPO with that KL, at every point of the run."""
    held = []
    for seed, progress in itertools.product(range(5), (0.0, 0.3, 1.0)):
        batch = {**drawn(seed), "state": {"progress": progress}}
        for row in batch["trajectories"]:
            row["logp_ref"] = [one - 0.2 for one in row["logp"]]
        level = {"regularisers.0.coefficient": Linear(0.04, 0.04)}
        held.append(look(OTHINK.but(level), batch)["gradient"] == look(find("grpo-kl"), batch)["gradient"])
        share = {"regularisers.0.coefficient": Constant(0.04 * progress)}
        held.append(same(look(OTHINK, batch)["loss"], look(find("grpo-kl").but(share), batch)["loss"]))
    return Finding(all(held), f"{sum(held)} of {len(held)} comparisons at progress 0, 0.3 and 1")


@claim("k3 is non-negative and unbiased for KL(pi || ref).", "Schulman 2020")
def k3_is_unbiased() -> Finding:
    """k3 is never negative, and its mean under pi is KL(pi || ref), by enumeration."""
    noise, gaps, least = Key.of(1).numpy(), [], math.inf
    for _ in range(200):
        own, other = (torch.log_softmax(torch.from_numpy(noise.normal(size=7) * 2), 0) for _ in range(2))
        k3 = kl_estimate(own - other, "k3")
        least = min(least, float(k3.min()))
        gaps.append(abs(float((own.exp() * (k3 - (own - other))).sum())))
    return Finding(
        max(gaps) < 1e-12 and least >= 0, f"largest gap to KL {max(gaps):.1e}, least value {least:.1e}, 200 pairs"
    )


RULE_A = (1.0, 0.8, 0.8, 0.6, 0.0, 0.0, 0.0, 0.0)
RULE_B = (0.2, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
PRIOR = (0.05, 0.2, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1)


@claim(
    "A rising weight earns on A what constants of its KL earn, bounds the KL, and transfers no worse than SFT.",
    slow=True,
)
def rising_weight_sweep() -> Finding:
    """Trained on A and tested on a related B: a rising weight against constant ones, and against imitation."""
    world = World(
        questions=1,
        tokens=8,
        horizon=1,
        reward=lambda question, answer: RULE_A[answer[0]],
        metadata=lambda question: {"demonstration": "0"},
    )
    prior = torch.tensor(PRIOR, dtype=torch.float64)

    def start(policy: Tabular) -> None:
        policy.logits[:] = prior.log()

    def figures(recipe_: Any, seed: int) -> tuple[float, float, float]:
        bench = trained(Bench(world, recipe_, seed=seed, lr=0.05, steps=120, start=start), 120)
        own = chances(bench)
        a, b = (float((own * torch.tensor(rule, dtype=torch.float64)).sum()) for rule in (RULE_A, RULE_B))
        return a, b, float((own * (own / prior).log()).sum())

    settings: dict[str, Any] = {"rising to 0.2": Linear(0.0, 0.2)} | {f"{c}": c for c in (0.0, 0.05, 0.1, 0.2, 0.4)}
    table = {}
    for name, weight in settings.items():
        runs = [figures(OTHINK.but({"regularisers.0.coefficient": weight}), seed) for seed in SEEDS]
        table[name] = tuple(fmean([run[n] for run in runs]) for n in range(3))
    copied = fmean([figures(find("sft"), seed)[1] for seed in SEEDS])
    rising = table.pop("rising to 0.2")
    # Against the constant weights that stray no further than it does.
    comparable = [row for row in table.values() if row[2] <= rising[2] + 0.05]
    best = max(row[0] for row in table.values())
    holds = rising[2] < table["0.0"][2] and rising[1] >= copied - 0.02
    holds &= all(rising[0] >= row[0] - 0.02 for row in comparable)
    listed = "; ".join(f"{name}: {shown(row)}" for name, row in table.items())
    return Finding(
        holds,
        f"reward on A, on B, and KL at the end: rising {shown(rising)}; constant {listed}; SFT on B {copied:.3f}. "
        f"No constant of at most its KL earns more, but the best {best:.3f} on A: the claim that a "
        "rising weight reaches the best constant's reward is not confirmed",
    )

"""What gmpo claims."""

from __future__ import annotations

import math
from statistics import mean

import torch

from hocket.core.batch import Batch
from hocket.core.segments import segment_mean
from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading, look
from hocket.lab.stale import run_stale
from hocket.lab.toys.objectives import documents, spread
from hocket.lab.toys.off_policy import TANGLED
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.gmpo import GMPO, GeometricMean, clipped_log_ratio
from hocket.recipe import Recipe
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

claim = Claims("gmpo", "derived")


@claim("at the old policy its gradient is GRPO's")
def gmpo_starts_as_grpo() -> Finding:
    """Gradients through both recipes where policy and old policy agree."""
    worst = 0.0
    for document in documents(20, gap=0.0):
        worst = max(worst, float((flat(look(GMPO, document)) - flat(look(GRPO, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 20 batches: {worst:.1e}")


@claim("|A| times the geometric mean is at most |A| times the arithmetic mean of ratios", "arXiv 2507.20673, section 3")
def gmpo_below_arithmetic_mean() -> Finding:
    """The objective's own value per trajectory, unclipped, against the mean of ratios computed apart."""
    objective = GeometricMean(low=1e3, high=1e3)
    slack = math.inf
    for document in documents(50, gap=1.0):
        read = Reading(document)
        sign = torch.ones(len(read.batch.occurrences), dtype=torch.float64)
        terms = objective(Evaluation(read.logp), read.batch.credited(advantage=-sign))
        geometric = read.by_trajectory(terms.value)
        for row, values in zip(document["trajectories"], geometric, strict=True):
            ratios = [math.exp(a - b) for a, b in zip(row["logp"], row["logp_proximal"], strict=True)]
            slack = min(slack, mean(ratios) - values[0])
    return Finding(slack > -1e-12, f"least of arithmetic minus geometric mean over 600 answers: {slack:.1e}")


@claim("one outlier of ratio R changes the objective by R^(1/T)")
def gmpo_outlier() -> Finding:
    """One token of ratio R among T - 1 of ratio 1, unclipped."""
    objective, worst = GeometricMean(low=1e3, high=1e3), 0.0
    for length in (1, 2, 7, 64):
        for factor in (0.01, 3.0, 1e4):
            old = [-2.0] * length
            rows = [{"group": "g", "scores": {"reward": 1.0}, "logp": [-2.0 + math.log(factor), *old[1:]]}]
            rows[0]["logp_behaviour"] = old
            read = Reading({"version": 1, "trajectories": rows})
            ones = torch.ones(length, dtype=torch.float64)
            loss = float(objective(Evaluation(read.logp), read.batch.credited(advantage=ones)).total())
            worst = max(worst, abs(-loss / factor ** (1 / length) - 1))
    return Finding(worst < 1e-9, f"relative error of R^(1/T) for T in 1, 2, 7, 64 and R in 0.01, 3, 1e4: {worst:.1e}")


def factor_range(recipe: Recipe, policy: Policy, batch: Batch) -> float:
    """The range over trajectories of what multiplies the advantage: the mean ratio, or the clipped geometric one."""
    with torch.no_grad():
        now = policy.evaluate(batch, {Quantity.LOGP}).logp
    seen = batch.occurrences
    gap = (now - batch.logp["behaviour"].values.double())[seen.decision]
    if recipe.name == "gmpo":
        gap = clipped_log_ratio(gap, seen.advantage, 0.4, 0.4)
        factor = segment_mean(gap, seen.trajectory, batch.trajectories).exp()
    else:
        factor = segment_mean(gap.exp(), seen.trajectory, batch.trajectories)
    return float(factor.max() - factor.min())


@claim(
    "on stale samples the range of sequence ratios is smaller and fewer runs collapse than with GRPO",
    "arXiv 2507.20673, section 4",
    slow=True,
)
def gmpo_stale() -> Finding:
    """Samples eight steps old and eight updates a step, ten seeds."""
    ranges: dict[str, list[float]] = {}
    kept: dict[str, list[float]] = {}
    for recipe in (GMPO, GRPO):
        for seed in range(10):
            seen: list[float] = []

            def after(policy: Policy, batch: Batch, recipe: Recipe = recipe, seen: list[float] = seen) -> None:
                seen.append(factor_range(recipe, policy, batch))

            changed = recipe.but({"update.epochs": 8, "rollout.samples": 16})
            bench = run_stale(Bench(TANGLED, changed, seed=seed, lr=0.3, steps=40), 40, lag=8, every=5, after=after)
            ranges.setdefault(recipe.name, []).append(mean(seen))
            kept.setdefault(recipe.name, []).append(bench.success())
    collapsed = {name: sum(value < 0.2 for value in values) for name, values in kept.items()}
    holds = mean(ranges["gmpo"]) < mean(ranges["grpo"]) and collapsed["gmpo"] < collapsed["grpo"]
    return Finding(
        holds,
        f"range of sequence factors {spread(ranges['gmpo'])} against {spread(ranges['grpo'])} of GRPO, collapsed runs "
        f"{collapsed['gmpo']} against {collapsed['grpo']} of 10, success {mean(kept['gmpo']):.2f} against "
        f"{mean(kept['grpo']):.2f}",
    )

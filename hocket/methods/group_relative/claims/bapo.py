"""What bapo claims."""

from __future__ import annotations

from statistics import mean

import torch

from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.stale import run_stale
from hocket.lab.toys.objectives import KEY, SEEDS, documents, spread
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.bapo import BAPO, positive_share

claim = Claims("bapo", "derived")


@claim("started at its limits it is PPO with a fixed asymmetric clip")
def bapo_fixed_bounds() -> Finding:
    """Gradients through both recipes on off-policy batches."""
    fixed = BAPO.but({"objective.low": 0.9, "objective.high": 3.0, "objective.dual": None})
    ppo = GRPO.but({"objective.low": 0.1, "objective.high": 2.0, "objective.aggregate": "token-mean"})
    worst = 0.0
    for document in documents(20, gap=0.6):
        worst = max(worst, float((flat(look(fixed, document)) - flat(look(ppo, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients from PPO clipped to [0.9, 3]: {worst:.1e}")


@claim("on-policy the bounds do not change the gradient")
def bapo_on_policy() -> Finding:
    """With ratios of 1 the bounds move, since no bound reaches a share of 1, and nothing changes."""
    ppo, worst, moved = GRPO.but({"objective.aggregate": "token-mean"}), 0.0, 0
    for document in documents(20, gap=0.0):
        found = look(BAPO.but({"objective.share": 1.0}), document)
        moved += found["metrics"]["clip/high"] > 1.2
        worst = max(worst, float((flat(found) - flat(look(ppo, document))).abs().max()))
    return Finding(
        worst < 1e-12 and moved > 0, f"largest difference {worst:.1e}, though bounds moved in {moved} of 20 batches"
    )


@claim(
    "at the bounds found the positive share is at least rho_0, or both stand at their maxima",
    "arXiv 2510.18927, algorithm 1",
)
def bapo_search() -> Finding:
    """At the bounds found the positive share reaches the target, or both stand at their limits."""
    reached = limits = wrong = 0
    for document in documents(40, gap=0.8):
        metrics = look(BAPO, document)["metrics"]
        if metrics["clip/positive"] >= 0.5:
            reached += 1
        elif abs(metrics["clip/low"] - 0.9) + abs(metrics["clip/high"] - 3.0) < 1e-12:
            limits += 1
        else:
            wrong += 1
    return Finding(wrong == 0 and reached > 0, f"of 40 batches {reached} reached 0.5, {limits} stand at both limits")


@claim(
    "counted by gradient the share rises with the lower bound, counted as in the released code it falls",
    "released code, recipe/bapo/policy_loss.py",
)
def bapo_released_search_works_against_itself() -> Finding:
    """Counted at their bound, clipped negatives weigh more the higher the lower bound; counted by gradient, less."""
    rng = KEY.derive("released").numpy()
    ratio = torch.from_numpy(rng.uniform(0.2, 1.6, 400))
    gain = torch.from_numpy(rng.choice([1.0, -1.0], 400, p=[0.2, 0.8]))

    def released(low: float) -> float:
        good = float((ratio.clamp(max=1.2) * gain.clamp(min=0)).sum())
        bad = float((ratio.clamp(min=low) * (-gain).clamp(min=0)).sum())
        return good / (good + bad)

    ours = [positive_share(ratio, gain, low, 1.2, 3.0) for low in (0.6, 0.7, 0.8, 0.9)]
    theirs = [released(low) for low in (0.6, 0.7, 0.8, 0.9)]
    holds = ours == sorted(ours) and theirs == sorted(theirs, reverse=True) and ours[0] < ours[-1]
    return Finding(
        holds,
        f"from 0.6 to 0.9: gradient-carrying {ours[0]:.3f} -> {ours[-1]:.3f}, released {theirs[0]:.3f} -> "
        f"{theirs[-1]:.3f}",
    )


MOSTLY_BAD = World(
    questions=2, tokens=6, horizon=3, context="last", reward=lambda question, answer: float(sum(answer) % 6 == question)
)


@claim(
    "on stale, mostly bad samples no run collapses and more is learnt than with a fixed clip; entropy is no higher",
    "arXiv 2510.18927, section 5",
    slow=True,
)
def bapo_stale() -> Finding:
    """Samples eight steps old, a sixth of them right at first; the same bounds, fixed and moving."""
    fixed = GRPO.but({"name": "fixed", "objective.aggregate": "token-mean", "objective.low": 0.4})
    success: dict[str, list[float]] = {}
    entropy: dict[str, list[float]] = {}
    for recipe in (BAPO, fixed):
        for seed in SEEDS:
            bench = Bench(MOSTLY_BAD, recipe.but({"update.epochs": 4}), seed=seed, lr=0.1, steps=30)
            run_stale(bench, 30, lag=8, every=5)
            success.setdefault(recipe.name, []).append(bench.success())
            entropy.setdefault(recipe.name, []).append(mean(reading.entropy for reading in bench.readings))
    holds = min(success["bapo"]) > 0.4 and mean(success["bapo"]) > max(success["fixed"])
    return Finding(
        holds,
        f"success from 0.17 to {spread(success['bapo'])} against {spread(success['fixed'])} of a fixed clip; mean "
        f"entropy over the run {spread(entropy['bapo'])} against {spread(entropy['fixed'])}: "
        "not higher, as the paper has it",
    )

"""PVPO's claims."""

from __future__ import annotations

import math
from statistics import stdev

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, say
from hocket.lab.groups import Groups, first_advantages, gap, recorded
from hocket.lab.microscope import inspect
from hocket.lab.toys.group_statistics import _rows_with_reference, bandit
from hocket.lab.toys.group_statistics_training import guessing
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.recipes import find

claim = Claims("pvpo", "arXiv:2508.21104")
PVPO = find("pvpo")


def of_divided(group: Groups, size: int, value: float) -> float:
    """How far the expected gradient with A = (R - V)/(std + 0.1) is from any multiple of the true one.

    Rewards 0, 1/2 and 1, for with two values symmetry hides the bias.
    """
    group.rewards = [1.0, 0.5, 0.0]
    total = torch.zeros_like(group.policy.logits)
    for chance, drawn in group.samples(size):
        scale = size * (stdev(group.rewards[n] for n in drawn) + 0.1)
        for n in drawn:
            total += chance * (group.rewards[n] - value) / scale * group.slopes[n]
    true = group.true_gradient()
    return gap(total, float((total * true).sum() / true.square().sum()) * true)


@claim(
    "With a baseline from elsewhere the estimate is unbiased for every group size, its variance the known "
    "one; division by the group's deviation makes it biased",
    "arXiv:2508.21104; derived here",
)
def _() -> Finding:
    """V is remembered from before; groups of 1, 2 and 3 on a bandit; then divided by their deviation."""
    group, value = bandit(0.3), 0.7
    gaps, variances, true = [], [], group.true_gradient()
    single = [(reward - value) * slope for reward, slope in zip(group.rewards, group.slopes, strict=True)]
    square = math.fsum(c * float(step.square().sum()) for c, step in zip(group.chances, single, strict=True))
    for size in (1, 2, 3):
        mean, variance = group.moments(PVPO, size, state={"credit": {"values": {"0": value}}})
        gaps.append(gap(mean, true))
        variances.append(abs(variance - (square - float(true.square().sum())) / size))
    divided = of_divided(group, 3, value)
    known = say(off_the_true_gradient=max(gaps), variance_off_the_known_one=max(variances))
    told = f"G = 1, 2, 3: {known}, {say(divided_off_its_best_multiple=divided)}"
    return Finding(max(*gaps, *variances) < EXACT and divided > 0.05, told)


@claim("The baseline is measured once and remembered; a group of one has an advantage")
def _() -> Finding:
    """A reference that was measured earlier serves later groups; an unmeasured scenario is left out."""
    measured = first_advantages(PVPO, _rows_with_reference([1.0, 0.0], [1.0, 0.0, 0.0, 0.0]))[:2]
    remembered = inspect(PVPO, {**recorded([[1.0]]), "state": {"credit": {"values": {"0": 0.25}}}})["advantages"]
    kept = inspect(PVPO, recorded([[1.0]]))["kept"]
    holds = measured == [0.75, -0.25] and remembered == [[0.75]] and kept == [False]
    return Finding(holds, say(advantages=str(measured), remembered=str(remembered), unmeasured_kept=str(kept)))


def spent(recipe: Recipe, seed: int) -> tuple[int | None, int]:
    """Rollouts to a success rate of 0.9, those of the reference counted, if it is reached; and how many those were."""
    bench, references = Bench(guessing(), recipe.but({"rollout.samples": 2}), seed=seed), 0
    for _ in range(20):
        bench.run(10)
        references = int(sum(metrics.get("rollout/references", 0.0) for metrics in bench.history))
        if bench.success() >= 0.9:
            return 2 * bench.world.questions * len(bench.history) + references, references
    return None, references


@claim("At group size 2 it needs fewer rollouts than GRPO, those of the reference counted", slow=True)
def _() -> Finding:
    (ours, references), (theirs, _) = (zip(*(spent(one, seed) for seed in SEEDS), strict=True) for one in (PVPO, GRPO))
    holds = max(one or 10**6 for one in ours) < min(one or 10**6 for one in theirs)
    figures = say(PVPO=str(list(ours)), of_them_for_the_reference=references[0], GRPO=str(list(theirs)))
    return Finding(holds, f"rollouts to 0.9 at group size 2: {figures}")

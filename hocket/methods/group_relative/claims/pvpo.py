"""What pvpo claims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

import torch

from hocket import recipes
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import Groups, first_advantages, gap, recorded
from hocket.lab.microscope import look
from hocket.lab.toys.group_statistics import EXACT, _rows_with_reference, bandit, finding
from hocket.lab.toys.group_statistics_training import SEEDS, guessing, recipe_of

claim = Claims("pvpo", "arXiv:2508.21104")


@claim(
    "With a baseline from elsewhere the estimate is unbiased for every group size, its variance the known "
    "one; division by the group's deviation makes it biased",
    "arXiv:2508.21104; derived here",
)
def _static_baseline_is_unbiased() -> Finding:
    """V is remembered from before; groups of 1, 2 and 3 on a bandit; then divided by their deviation."""
    group, value = bandit(0.3), 0.7
    recipe, known = recipes.find("pvpo"), {"credit": {"values": {"0": value}}}
    gaps, spread = [], []
    for size in (1, 2, 3):
        mean, variance = group.moments(recipe, size, state=known)
        gaps.append(gap(mean, group.true_gradient()))
        single = [(reward - value) * slope for reward, slope in zip(group.rewards, group.slopes, strict=True)]
        square = math.fsum(c * float(step.square().sum()) for c, step in zip(group.chances, single, strict=True))
        spread.append(abs(variance - (square - float(group.true_gradient().square().sum())) / size))
    divided = _sum_of_divided(group, 3, value)
    return finding(
        f"G = 1, 2, 3: {max(gaps):.1e} from the true gradient, variance within {max(spread):.1e} of (E|A grad|^2 - "
        f"|grad J|^2)/G; divided by the group's deviation, {divided:.2f} off its best multiple",
        max(gaps) < EXACT,
        max(spread) < EXACT,
        divided > 0.05,
    )


def _sum_of_divided(group: Groups, size: int, value: float) -> float:
    """How far the expected gradient with A = (R - V)/(std + 0.1) is from any multiple of the true one.

    Rewards 0, 1/2 and 1, for with two values symmetry hides the bias.
    """
    group.rewards = [1.0, 0.5, 0.0]
    total = torch.zeros_like(group.policy.logits)
    for chance, drawn in group.samples(size):
        rewards = [group.rewards[n] for n in drawn]
        for n in drawn:
            advantage = (group.rewards[n] - value) / (statistics.stdev(rewards) + 0.1)
            total += chance * advantage * group.slopes[n] / size
    true = group.true_gradient()
    factor = float((total * true).sum() / true.square().sum())
    return gap(total, factor * true)


@claim("The baseline is measured once and remembered; a group of one has an advantage")
def _pvpo_measures_once() -> Finding:
    """A reference that was measured earlier serves later groups; an unmeasured scenario is left out."""
    pvpo = recipes.find("pvpo")
    measured = first_advantages(pvpo, _rows_with_reference([1.0, 0.0], [1.0, 0.0, 0.0, 0.0]))[:2]
    later = recorded([[1.0]])
    remembered = look(pvpo, {**later, "state": {"credit": {"values": {"0": 0.25}}}})
    unknown = look(pvpo, later)
    return finding(
        f"advantages {measured}; remembered {remembered['advantages']}; unmeasured kept: {unknown['kept']}",
        measured == [0.75, -0.25],
        remembered["advantages"] == [[0.75]],
        unknown["kept"] == [False],
    )


def _rollouts_to(name: str, changes: Mapping[str, Any], seed: int, target: float = 0.9) -> tuple[int | None, int]:
    """Rollouts until the success rate is reached, those of the reference counted; and how many those were."""
    bench, spent, measured = Bench(guessing(), recipe_of(name, changes), seed=seed), 0, 0
    for _ in range(20):
        bench.run(10)
        spent = sum(2 * bench.world.questions for _ in bench.history)
        measured = int(sum(metrics.get("rollout/references", 0.0) for metrics in bench.history))
        if bench.success() >= target:
            return spent + measured, measured
    return None, measured


@claim("At group size 2 it needs fewer rollouts than GRPO, those of the reference counted", slow=True)
def _pvpo_needs_fewer_rollouts() -> Finding:
    pvpo = [_rollouts_to("pvpo", {"rollout.samples": 2}, seed) for seed in SEEDS]
    grpo = [_rollouts_to("grpo", {"rollout.samples": 2}, seed) for seed in SEEDS]
    most = max(spent or 10**6 for spent, _ in pvpo)
    least = min(spent or 10**6 for spent, _ in grpo)
    return Finding(
        most < least,
        f"rollouts to 0.9 at group size 2: PVPO {[spent for spent, _ in pvpo]} ({pvpo[0][1]} of them the reference's), "
        f"GRPO {[spent for spent, _ in grpo]}",
    )

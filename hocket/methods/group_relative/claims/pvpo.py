"""PVPO's claims."""

import math
from functools import partial
from statistics import fmean, stdev

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, inspect_rows, say
from hocket.lab.groups import first_advantages, gap, recorded
from hocket.lab.hand_formulas import off, stale_rows
from hocket.lab.toys.enumerable_groups import bandit, beside_reference
from hocket.lab.toys.quick_worlds import guessing
from hocket.recipe import Recipe
from hocket.recipes import GRPO, PVPO
from hocket.rollout.reference import WithReference

claim = Claims("pvpo", "arXiv:2508.21104")


@claim(
    "With a baseline from elsewhere the estimate is unbiased for every group size, its variance the known "
    "one; division by the group's deviation makes it biased",
    "arXiv:2508.21104; derived here",
)
def with_a_baseline_from_elsewhere_the_estimate_is_unbiased_for() -> Finding:
    group, value, biases, errors = bandit(0.3), 0.7, [], []
    true = group.true_gradient()
    single = [(reward - value) * slope for reward, slope in zip(group.rewards, group.slopes, strict=True)]
    square = math.fsum(c * float(step.square().sum()) for c, step in zip(group.chances, single, strict=True))
    for size in (1, 2, 3):
        mean, variance = group.moments(PVPO, size, state={"credit": {"values": {"0": value}}})
        biases.append(gap(mean, true))
        errors.append(abs(variance - (square - float(true.square().sum())) / size))
    # Divided by a group's deviation; rewards 0, 1/2 and 1, for with two values symmetry hides the bias.
    group.rewards, total = [1.0, 0.5, 0.0], torch.zeros_like(true)
    for chance, drawn in group.samples(3):
        scale = 3 * (stdev(group.rewards[n] for n in drawn) + 0.1)
        total += sum((chance * (group.rewards[n] - value) / scale * group.slopes[n] for n in drawn), 0 * true)
    true = group.true_gradient()
    divided = gap(total, float((total * true).sum() / true.square().sum()) * true)
    known = say(off_the_true_gradient=max(biases), variance_off_the_known_one=max(errors))
    figures = f"G = 1, 2, 3: {known}, {say(divided_off_its_best_multiple=divided)}"
    return Finding(max(*biases, *errors) < EXACT and divided > 0.05, figures)


@claim("The baseline is measured once and remembered; a group of one has an advantage")
def the_baseline_is_measured_once_and_remembered_a_group_of_one_has() -> Finding:
    measured = first_advantages(PVPO, beside_reference([1.0, 0.0], [1.0, 0.0, 0.0, 0.0]))[:2]
    rows = recorded([[1.0]])["trajectories"]
    remembered = inspect_rows(PVPO, rows, credit={"values": {"0": 0.25}})["advantages"]
    kept = inspect_rows(PVPO, rows)["kept"]
    holds = measured == [0.75, -0.25] and remembered == [[0.75]] and kept == [False]
    return Finding(holds, say(advantages=str(measured), remembered=str(remembered), unmeasured_kept=str(kept)))


@claim("Advantages, loss and gradient are those counted by hand, measured values before remembered ones")
def advantages_loss_and_gradient_are_those_counted_by_hand_measured() -> Finding:
    gaps = []
    for rows in stale_rows("pvpo"):
        (more,) = stale_rows("pvpo reference", count=1, samples=3, groups=2)
        told = [
            {**row, "id": f"r{n}", "source": "baseline", "trained": [False] * len(row["logp"])}
            for n, row in enumerate(more)
        ]
        known = {
            name: fmean(row["scores"]["reward"] for row in told if row["group"] == name)
            for name in ("group 0", "group 1")
        }
        known["group 2"] = 0.3
        rule = partial(lambda some, known: [one.reward - known[one.row["group"]] for one in some], known=known)
        gaps.append(
            off(PVPO, [*rows, *told], credit=rule, state={"credit": {"values": {"group 0": 9.0, "group 2": 0.3}}})
        )
    rollout = PVPO.rollout == WithReference(samples=8, references=8, once=True, solved=1.0, inject=True)
    return Finding(max(gaps) < EXACT and rollout, say(off_by_hand=max(gaps)))


def spent(recipe: Recipe, seed: int) -> tuple[int | None, int]:
    """Rollouts to a success rate of 0.9, those of the reference counted, if it is reached; and how many those were."""
    bench, references = Bench(guessing(), recipe.but({"rollout.samples": 2}), seed=seed), 0
    while bench.done < 200:
        bench.run(10)
        references = int(sum(metrics.get("rollout/references", 0.0) for metrics in bench.history))
        if bench.success() >= 0.9:
            return 2 * bench.world.questions * bench.done + references, references
    return None, references


@claim("At group size 2 it needs fewer rollouts than GRPO, those of the reference counted", slow=True)
def at_group_size_2_it_needs_fewer_rollouts_than_grpo_those_of_the() -> Finding:
    (ours, references), (theirs, _) = (zip(*(spent(one, seed) for seed in SEEDS), strict=True) for one in (PVPO, GRPO))
    holds = max(one or 10**6 for one in ours) < min(one or 10**6 for one in theirs)
    figures = say(PVPO=str(list(ours)), of_them_for_the_reference=references[0], GRPO=str(list(theirs)))
    return Finding(holds, f"rollouts to 0.9 at group size 2: {figures}")


claim.shipped(PVPO, "credit")

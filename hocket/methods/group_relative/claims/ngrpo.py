"""NGRPO's claims."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, variance

from hocket.core.components import value_at
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gap, runs, say
from hocket.lab.hand_formulas import CountedAnswer, clipped, off, stale_rows, standardised
from hocket.lab.toys.enumerable_groups import binary_advantages
from hocket.lab.toys.quick_worlds import choosing, lead, leaning
from hocket.recipe import Recipe
from hocket.recipes import GRPO, NGRPO

ONCE = {"update.minibatches": 1}
"""As many updates per batch as GRPO."""

claim = Claims("ngrpo", "arXiv:2509.18851")


@claim("All wrong gives -1/sqrt(G+1) each, all right 0, and the real ones never a positive mean")
def all_wrong_gives_1_sqrt_each_all_right_0_and_the_real_ones_never() -> Finding:
    recipe, errors, means, wrong = NGRPO.but({"credit.epsilon": 0.0}), [], list[float](), {}
    for size in (1, 2, 4, 8):
        rows = binary_advantages(recipe, size)
        errors += [gap(rows[0], [-1 / math.sqrt(size + 1)] * size), gap(rows[-1], [0.0] * size)]
        means, wrong[f"G {size}:"] = [*means, *map(fmean, rows)], rows[0][0]
    figures = say(all_wrong=wrong, error=max(errors), largest_mean_of_the_real_ones=max(means))
    return Finding(max(errors) < EXACT and max(means) <= EXACT, figures)


@claim("Advantages, loss and gradient are those counted by hand, clipped at 0.16 and 0.24; four mini-batches")
def advantages_loss_and_gradient_are_those_counted_by_hand_clipped() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[float]:
        return standardised([*members, replace(members[0], reward=1.0)])[:-1]

    loss = partial(clipped, low=0.16, high=0.24)
    gaps = [off(NGRPO, rows, loss, credit) for rows in stale_rows("ngrpo", gap=0.3)]
    return below(EXACT, value_at(NGRPO, "update.minibatches") == 4, off_by_hand=max(gaps))


def steps_to_success(recipe: Recipe, seed: int) -> int:
    """Steps until one of 80 answers is first right; 61 when that takes more than 60."""
    bench = Bench(choosing(1, 80, lambda question, token: float(token == 0)), recipe, seed=seed, lr=0.3)
    return next((step for step in range(1, 61) if bench.step().metrics["reward/mean"] > 0), 61)


@claim("On a hard task the first success comes sooner than under GRPO", slow=True)
def on_a_hard_task_the_first_success_comes_sooner_than_under_grpo() -> Finding:
    steps = {one.name: [steps_to_success(one, seed) for seed in range(24)] for one in (GRPO, NGRPO.but(ONCE))}
    ahead, error = lead(*steps.values())
    means = {name: fmean(some) for name, some in steps.items()}
    return Finding(ahead > 2 * error, say(steps_to_the_first_success=means, ahead=ahead, error=error))


@claim(
    "Its tight clip keeps entropy growing; a wide one overshoots and ends lower (expected: entropy grows more)",
    "the ablation of arXiv:2509.18851; the outcome is what is seen here",
    slow=True,
)
def its_tight_clip_keeps_entropy_growing_a_wide_one_overshoots_and() -> Finding:
    # Nothing is right and one answer dominates; eight updates per batch, so that clips matter.
    world, often = choosing(4, 6, lambda question, token: 0.0), NGRPO.but({**ONCE, "update.epochs": 8})
    loose = often.but({"name": "0.9 both", "objective.low": 0.9, "objective.high": 0.9})
    sides = (often.but({"name": "0.16 below, 0.24 above"}), loose)
    made = runs(world, *sides, steps=10, every=10, seeds=range(8), lr=0.05, start=leaning(0, 3.0))
    entropy = each(made, Bench.entropy)
    tight, wide = entropy.values()
    before = made["0.9 both"][-1].readings[0].entropy
    error = math.sqrt((variance(tight) + variance(wide)) / 8)
    holds = min(tight) > before and fmean(tight) - fmean(wide) > 2 * error
    return Finding(holds, say(entropy_in_nats_before=before, after_10_steps_clipped=entropy))


claim.shipped(NGRPO, "credit")
claim.shipped(NGRPO, "objective", steps=3)

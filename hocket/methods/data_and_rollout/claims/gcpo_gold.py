"""Claims of GCPO with reference answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch

from hocket.core.components import value_at
from hocket.core.signals import RIGHT
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, runs, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.toys.hard_half import ALL_HARD, HARD_HALF, on_hard
from hocket.lab.toys.recorded_answers import advantages, lines, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.gcpo_gold import GCPO_GOLD

claim = Claims("gcpo-gold", "arXiv:2510.07790")


@claim("A reference among G - 1 failures has the advantage sqrt(G - 1), each failure -1/sqrt(G - 1).", "derived")
def a_reference_among_g_1_failures_has_the_advantage_sqrt_each() -> Finding:
    off = 0.0
    for size in (2, 3, 8, 16):
        rows = [sample("q", float(n == 0), [-1.0], source="expert" if n == 0 else "own") for n in range(size)]
        root = math.sqrt(size - 1)
        off = max(off, gap(advantages(GCPO_GOLD, rows), [root, *[-1 / root] * (size - 1)]) / root)
    return Finding(off < 1e-5, say(largest_relative_difference=off))


@claim("Where nobody succeeds GRPO's gradient is exactly 0 and GCPO's is not; its first ratio at the reference is 1.")
def where_nobody_succeeds_grpos_gradient_is_exactly_0_and_gcpos_is() -> Finding:
    moved = {}
    for recipe in (GRPO, GCPO_GOLD):
        bench = Bench(ALL_HARD, recipe.but({"update.lr": 0.1}))
        result = bench.step()
        moved[recipe.name] = float((bench.policy.logits - bench.reference.logits).detach().abs().max())
    sources = [one.source for one in result.trajectories]
    exact = result.metrics["ratio/clipped"] == 0 and sources.count("expert") == ALL_HARD.questions
    failed = result.metrics["rollout/failed"] == result.metrics["rollout/rescued"] == ALL_HARD.questions
    return Finding(moved["grpo"] == 0 < moved["gcpo-gold"] and exact and failed, say(largest_change_of_logits=moved))


@claim("On questions that start near 0 it learns, and GRPO stays there; easy questions are no worse.")
def on_questions_that_start_near_0_it_learns_and_grpo_stays_there() -> Finding:
    made = runs(HARD_HALF, GCPO_GOLD, GRPO, steps=40, every=50, seeds=range(3), lr=0.1)
    hard = {name: [on_hard(bench) for bench in group] for name, group in made.items()}
    both = {name: [bench.success() for bench in group] for name, group in made.items()}
    holds = min(hard["gcpo-gold"]) > 0.8 and max(hard["grpo"]) < 0.05 and min(both["gcpo-gold"]) > max(both["grpo"])
    return Finding(holds, lines(hard_questions=hard, all_questions=both))


@claim(
    "Losses are the paper's by hand, with one ratio per answer and deviations by G; as shipped one of 8 failures gives "
    "way to the one reference.",
    "arXiv:2510.07790; the number of samples is chosen here",
)
def losses_are_the_papers_by_hand_with_one_ratio_per_answer_and() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        gains = []
        for one in answers:
            ratio, advantage = (one.logp - one.old).mean().exp(), one.advantage[0]
            gains.append(torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage))
        return -torch.stack(gains).mean(), {}

    gaps = [off(GCPO_GOLD, rows, loss, partial(standardised, ddof=0)) for rows in stale_rows("gold")]
    names = ("samples", "take", "tries", "beside", "success", "after")
    found = [value_at(GCPO_GOLD, f"rollout.{name}") for name in names]
    return below(EXACT, found == [8, 1, 1, False, RIGHT, 0], off_by_hand=max(gaps))


claim.shipped(
    GCPO_GOLD,
    "rollout",
    sees=lambda run: {"failed": run.mean("rollout/failed"), "rescued": run.mean("rollout/rescued")},
)

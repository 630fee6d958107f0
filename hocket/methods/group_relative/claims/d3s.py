"""D3S's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, pvariance

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.hand_formulas import CountedAnswer, clipped, off, stale_rows
from hocket.lab.microscope import inspect
from hocket.lab.toys.recorded_answers import document, drawn, sample, shown
from hocket.lab.toys.training import chances, starting
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.d3s import D3S, largest_variance
from hocket.recipe import Recipe

claim = Claims("d3s", "arXiv 2509.22115")
BATCHES = [drawn(seed) for seed in range(20)]


@claim("The scan of the split point finds the subset of largest variance.", "brute force; the proof is by convexity")
def the_scan_of_the_split_point_finds_the_subset_of_largest() -> Finding:
    noise, gaps = Key.of(3).numpy(), []
    for size in range(2, 15):
        rough = noise.choice([-1.0, -0.5, 0.0, 0.3, 2.0], size) if size % 2 else noise.normal(size=size)
        values = torch.from_numpy(rough)
        for number in {1, 2, size // 2, size - 1, size}:
            subsets = torch.tensor(list(itertools.combinations(range(size), number)))
            best = values[subsets].var(dim=1, correction=0).max()
            gaps.append(float((best - values[largest_variance(values, number)].var(correction=0)).abs()))
    return below(EXACT, len(gaps) == 58, largest_gap_to_brute_force_of_58_pairs_of_n_up_to_14_and_k=max(gaps))


@claim("With everything kept it is GRPO to the bit.", "derived")
def with_everything_kept_it_is_grpo_to_the_bit() -> Finding:
    full = D3S.but({"credit.samples": 1.0, "credit.decisions": 1.0})
    equal = sum(inspect(full, batch)["gradient"] == inspect(GRPO, batch)["gradient"] for batch in BATCHES)
    late = inspect(D3S, {**drawn(0), "state": {"progress": 1.0}})["gradient"] == inspect(GRPO, drawn(0))["gradient"]
    return Finding(equal == 20 and late, say(batches=20, gradients_equal_to_the_bit=equal, at_the_schedules_end=late))


@claim("The tokens kept are those of largest |A| H.")
def the_tokens_kept_are_those_of_largest_a_h() -> Finding:
    held, recipe = 0, D3S.but({"credit.samples": 1.0, "credit.decisions": 0.3})
    for batch in BATCHES:
        advantages = itertools.chain(*inspect(GRPO, batch)["advantages"])
        entropies = itertools.chain(*(row["entropy"] for row in batch["trajectories"]))
        product = [abs(a) * h for a, h in zip(advantages, entropies, strict=True)]
        kept = [p for p, w in zip(product, itertools.chain(*inspect(recipe, batch)["weight"]), strict=True) if w != 0]
        number = math.ceil(0.3 * len(product))
        held += len(kept) == number and min(kept) >= sorted(product, reverse=True)[number - 1]
    return Finding(held == 20, f"the top 30 % by |A| H in {held} of 20 batches")


@claim("What is kept, its loss and gradient are those counted by hand at four points of a run.")
def what_is_kept_its_loss_and_gradient_are_those_counted_by_hand_at() -> Finding:
    def loss(answers: Sequence[CountedAnswer], share: float) -> tuple[torch.Tensor, dict[str, float]]:
        count = math.ceil(share * len(answers) - 1e-9)
        sets = (list(some) for some in itertools.combinations(answers, count))
        kept = max(sets, key=lambda some: pvariance(float(one.advantage[0]) for one in some))
        strong = [
            (abs(float(a)) * float(h), n, t)
            for n, one in enumerate(kept)
            for t, (a, h) in enumerate(zip(one.advantage, one.entropy, strict=True))
        ]
        left = {(n, t) for _, n, t in sorted(strong, reverse=True)[: math.ceil(share * len(strong) - 1e-9)]}
        parts = []
        for n, one in enumerate(kept):
            places = [t for t in range(len(one.logp)) if (n, t) in left]
            if places:
                chosen = {name: getattr(one, name)[places] for name in ("logp", "old", "advantage", "ref")}
                parts.append(replace(one, **chosen))
        return clipped(parts)

    gaps = []
    for rows in stale_rows("d3s", count=1, groups=2, graded=True):
        for at, share in ((0.0, 0.5), (0.15, 0.6), (0.3, 0.7), (0.9, 1.0)):
            gaps.append(off(D3S, rows, partial(loss, share=share), state={"progress": at}))
    rows = [sample("a", reward, [-1.0] * 25, entropy=[0.1 * t for t in range(25)]) for reward in (0.0, 1.0)]
    kept = inspect(D3S.but({"credit.samples": 1.0, "credit.decisions": 0.14}), document(rows))["weight"]
    few = sum(weight != 0 for row in kept for weight in row)
    return below(EXACT, few == 7, off_by_hand=max(gaps))


WORLD = World(4, 4, 6, lambda q, a: float(a[2] == q and a[4] == (q + 1) % 4), context="position")


START = starting({(q, (0,) * place): {0: 0.97} for q in range(4) for place in (0, 1, 3, 5)}, 0.01)


def learn(recipe: Recipe, seed: int) -> tuple[float, float]:
    """Decisions back-propagated to a success rate of 80 %, and the rate after 160 steps."""
    bench, used, needed, right = Bench(WORLD, recipe, seed=seed, lr=0.1, steps=160, start=START), 0, math.inf, 0.0
    for _ in range(160):
        batch = bench.step().batch
        assert batch is not None
        used += int(((batch.occurrences.weight != 0) & (batch.occurrences.advantage != 0)).sum())
        pairs = ((chances(bench, q, (0,) * 2)[q], chances(bench, q, (0,) * 4)[(q + 1) % 4]) for q in range(4))
        right = fmean(float(first * second) for first, second in pairs)
        needed = min(needed, used) if right >= 0.8 else needed
    return needed, right


@claim("Accuracy per token back-propagated is above GRPO's, the final one within a point.", slow=True)
def accuracy_per_token_back_propagated_is_above_grpos_the_final_one() -> Finding:
    ours, plain = (zip(*(learn(recipe, seed) for seed in SEEDS), strict=True) for recipe in (D3S, GRPO))
    (cost, final), (cost_grpo, final_grpo) = ours, plain
    holds = max(cost) < min(cost_grpo) and min(final) >= min(final_grpo) - 0.01
    saw = say(decisions_learnt_to_80_percent=shown(cost, 4), GRPO=shown(cost_grpo, 4), after_160_steps=shown(final))
    return Finding(holds, f"{saw}, GRPO {shown(final_grpo)}")


claim.spares(
    "ordered - ordered.mean() -> ordered + ordered.mean()",
    "a variance does not depend on where values are measured from",
)
claim.spares("ordered - ordered.mean() -> ordered", "a variance does not depend on where values are measured from")
claim.spares("size + 1 -> size", "the lowest alone vary most only where the others do as well")
claim.spares("sums[low] + sums[-1] -> sums[low] - sums[-1]", "centred values sum to 0")
claim.spares("sums[low] + sums[-1] -> sums[low]", "centred values sum to 0")
claim.spares("squares[low] + squares[-1] -> squares[low] - squares[-1]", "the same for every split")
claim.spares("squares[low] + squares[-1] -> squares[low]", "the same for every split")
claim.spares("-1 -> 1", "in line 48, the same for every split")
claim.spares("highest == lowest -> highest != lowest", "decides the last bit, between equals, alone")
claim.spares("1e-09 -> 4e-08", "only makes up for rounding")

claim.shipped(D3S, without={"credit.samples": 1.0})
claim.shipped(D3S, without={"credit.decisions": 1.0})

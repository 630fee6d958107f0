"""Knapsack RL's claims."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, below, inspect_rows, say
from hocket.lab.toys.rates import coins, ledger_of
from hocket.lab.toys.recorded_answers import lines, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.knapsack_rl import KNAPSACK_RL, GradientWorth, gradient_worth
from hocket.recipe import Recipe
from hocket.rollout.allocation import EvenWorth, allocate
from hocket.rollout.independent import Independent

claim = Claims("knapsack-rl", "arXiv:2509.25849")
SHARED: Any = KNAPSACK_RL.rollout


def table(rates: list[float], low: int, high: int) -> Any:
    """V(N, p) of every scenario and number of samples, `[Q, K]`."""
    return np.stack([gradient_worth(rate, np.arange(low, high + 1)) for rate in rates])


def by_programme(worth: Any, spare: int) -> float:
    """The largest sum that `spare` further samples reach, by dynamic programming over scenarios."""
    best = {0: 0.0}
    for row in worth:
        further = dict[int, float]()
        for used, value in best.items():
            for more, gain in enumerate(row[: spare - used + 1]):
                further[used + more] = max(further.get(used + more, -np.inf), value + gain)
        best = further
    return best[spare]


@claim("Greedy, the dynamic programme and brute force agree, and the total is spent exactly.")
def greedy_the_dynamic_programme_and_brute_force_agree_and_the() -> Finding:
    rng, off, spent = Key.of(0).derive("knapsack").numpy(), 0.0, True
    for _ in range(60):
        rates, low, high = rng.uniform(0, 1, size=3).tolist(), int(rng.integers(1, 3)), int(rng.integers(4, 8))
        worth = table(rates, low, high)
        total = int(rng.integers(3 * low, 3 * high + 1))
        counts = allocate(worth, low, total)
        spent &= int(counts.sum()) == total and bool(((counts >= low) & (counts <= high)).all())
        ours = float(sum(row[n - low] for row, n in zip(worth, counts, strict=True)))
        ways = itertools.product(range(low, high + 1), repeat=3)
        force = max(sum(r[n - low] for r, n in zip(worth, way, strict=True)) for way in ways if sum(way) == total)
        off = max(off, abs(ours - force), abs(ours - by_programme(worth, total - 3 * low)))
    return below(1e-12, spent, largest_difference_of_three_solvers=off)


@claim(
    "Equal success rates give equal counts; what is always solved keeps the fewest samples, what never is the fallback."
)
def equal_success_rates_give_equal_counts_what_is_always_solved() -> Finding:
    names = [f"lab/{n}" for n in range(4)]
    equal, mixed = (SHARED.counts(names, ledger_of(*rates)) for rates in ((0.3,) * 4, (0.0, 1.0, 0.3, 0.3)))
    fresh = SHARED.counts(names, ledger_of())
    return Finding(equal == fresh == [8] * 4 and mixed == [8, 2, 11, 11], say(equal=str(equal), mixed=str(mixed)))


@claim("A group of N has a gradient under GRPO with probability 1 - p^N - (1-p)^N.", "section 3")
def a_group_of_n_has_a_gradient_under_grpo_with_probability_1_p_n_n() -> Finding:
    off = 0.0
    for size, rate in itertools.product((2, 3, 5), (0.05, 0.4, 0.9)):
        chance = 0.0
        for right in range(size + 1):
            rows = [sample("q", float(n < right), [-1.0]) for n in range(size)]
            moves = any(any(one) for one in inspect_rows(GRPO, rows)["gradient"])
            ways = len(list(itertools.combinations(range(size), right)))
            chance += moves * ways * rate**right * (1 - rate) ** (size - right)
        worth = float(gradient_worth(rate, np.array([size]))[0])
        off = max(off, abs(worth - chance * rate * (1 - rate) ** 2))
    return below(1e-12, off_by_enumeration=off)


@claim("Until both outcomes appear 1/p + 1/(1-p) - 1 samples are to be expected.", "derived; section 3")
def until_both_outcomes_appear_1_p_1_1_samples_are_to_be_expected() -> Finding:
    rng, off = Key.of(1).derive("knapsack").numpy(), 0.0
    for rate in (0.5, 0.2, 0.05):
        draws = rng.random((20_000, 400)) < rate
        both = np.maximum(draws.argmax(1), (~draws).argmax(1)) + 1
        off = max(off, abs(float(both.mean()) / (1 / rate + 1 / (1 - rate) - 1) - 1))
    return below(0.02, relative_difference_of_simulated_means=off)


@claim("Its objective is never below that of equal counts; the plain share of groups with a gradient may be.")
def its_objective_is_never_below_that_of_equal_counts_the_plain() -> Finding:
    rng, least = Key.of(2).derive("knapsack").numpy(), np.inf
    for _ in range(100):
        worth = table(rng.uniform(0, 1, size=6).tolist(), 2, 40)
        counts = allocate(worth, 2, 48)
        least = min(least, float(worth[range(6), counts - 2].sum() - worth[:, 8 - 2].sum()))
    rates = [0.24, 0.9]
    counts = allocate(table(rates, 2, 14), 2, 16)
    both = [[1 - p**n - (1 - p) ** n for p, n in zip(rates, side, strict=True)] for side in (counts.tolist(), [8, 8])]
    share = [sum(one) / 2 for one in both]
    holds = least > -1e-12 and counts.tolist() == [14, 2] and share[0] < share[1]
    return Finding(holds, say(least_gain=least, counts=str(counts.tolist()), share=share[0], of_equal_counts=share[1]))


@claim("As shipped all questions come again, all worth the same: else no rate would be known.", "chosen here")
def as_shipped_all_questions_come_again_all_worth_the_same_else_no() -> Finding:
    drawn: Any = KNAPSACK_RL.curriculum
    pool, even = getattr(drawn, "pool", 0), getattr(drawn, "value", None)
    alike = even is not None and len({even(Outcomes(), past) for past in ([], [0.0], [1.0, 0.5])}) == 1
    return Finding(pool is None and alike, say(pool=pool))


@claim("A rate that has changed is followed within two visits; over all visits it would lag behind.", "derived")
def a_rate_that_has_changed_is_followed_within_two_visits_over_all() -> Finding:
    past = [*[0.0] * 6, 0.5, 0.5]
    counts, told = np.arange(2, 20), Outcomes(64, 8)
    recent, long = (GradientWorth(window=window)(told, past, counts) for window in (2, 8))
    off = float(np.abs(recent - gradient_worth(0.5, counts)).max())
    return Finding(off == 0 and float(np.abs(long - recent).max()) > 0.01, say(off_after_two_visits=off))


claim.constants(
    "As shipped a rate is of two visits, 1/2 before the first; 2 to 128 samples each, 8 of what was never solved; 16 "
    "questions a step.",
    KNAPSACK_RL,
    {
        "rollout.low": 2,
        "rollout.high": 128,
        "rollout.samples": 8,
        "rollout.value.window": 2,
        "rollout.value.unseen": 0.5,
        "rollout.value.unsolved": 8,
        "curriculum.prompts": 16,
        "curriculum.even": 0.0,
    },
    "arXiv:2509.25849; the fallback, the visits and the number of questions are chosen here",
)


RATES = (*[0.02] * 6, *[0.1] * 4, 0.3, 0.5, *[0.9] * 6, *[0.98] * 6)


def steps_to(success: float, recipe: Recipe) -> list[float]:
    """The steps that three seeds take, with the same number of samples in each."""
    world, start = coins(RATES)
    made = [Bench(world, recipe, seed=seed, lr=0.05, start=start).run(66, every=2) for seed in range(3)]
    return [float(bench.first(success) or 99) for bench in made]


@claim("With success rates far apart the same success is reached with fewer samples than with equal counts.")
def with_success_rates_far_apart_the_same_success_is_reached_with() -> Finding:
    ours, equal = (steps_to(0.9, one) for one in (KNAPSACK_RL, KNAPSACK_RL.but({"rollout.value": EvenWorth()})))
    return Finding(max(ours) < min(equal), lines(steps_to_90_percent=ours, with_equal_counts=equal))


claim.shipped(
    KNAPSACK_RL,
    without={"rollout": Independent(samples=8)},
    task="worked_sums",
    settings={"curriculum.pool": 8, "curriculum.prompts": 8},
    steps=2,
    sees=lambda run: {
        "most over fewest": run.results[-1].metrics["rollout/most"] - run.results[-1].metrics["rollout/fewest"]
    },
)

"""CurES's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.core.statistics import Moments, Summary
from hocket.curriculum.scenario_worth import Even
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, below, gap, say
from hocket.lab.toys.hard_half import HARD_HALF
from hocket.lab.toys.rates import coins, ledger_of
from hocket.lab.toys.recorded_answers import lines
from hocket.methods.data_and_rollout.cures import (
    CURES,
    GRADIENT_NORM,
    NeymanWorth,
    Norms,
    SpreadValue,
    gradient_variance,
)
from hocket.recipe import Recipe
from hocket.rollout.allocation import allocate
from hocket.rollout.independent import Independent
from hocket.train.ledger import Ledger

claim = Claims("cures", "arXiv:2510.01037; ZexuSun/CurES")
COUNTS = np.arange(2, 17)
ASKING: Any = CURES.but({"curriculum.prompts": 2}).curriculum


@claim("The posterior mean of the success rate is (1 + right)/(2 + tried), the mean of its Beta density.")
def the_posterior_mean_of_the_success_rate_is_the_mean_of_its_beta() -> Finding:
    grid, off = np.linspace(0, 1, 200_001), 0.0
    for tried, right in ((0, 0), (5, 1), (40, 40), (17, 6)):
        density = grid**right * (1 - grid) ** (tried - right)
        mean = float((grid * density).sum() / density.sum())
        spread = float(((grid - mean) ** 2 * density).sum() / density.sum())
        told = Outcomes(tried, right)
        off = max(off, abs(told.mean - mean), abs(told.variance - spread), abs(told.mean - (1 + right) / (2 + tried)))
    return below(1e-4, off_by_quadrature=off)


@claim("Scenarios are drawn with probability proportional to exp(sqrt(p (1-p))/T).")
def scenarios_are_drawn_with_probability_proportional_to_exp_t() -> Finding:
    world, _ = coins((0.5, 0.5, 0.5))
    ledger = ledger_of(0.0, 0.5, 0.9)
    draws = [ASKING(world, 3 + n, 1, ledger, Key.of(0))[0].id for n in range(4000)]
    rates = [Outcomes(1000, int(1000 * rate)).mean for rate in (0.0, 0.5, 0.9)]
    odds = [math.exp(math.sqrt(p * (1 - p)) / 0.1) for p in rates]
    wanted = [one / sum(odds) for one in odds]
    seen = [draws.count(f"lab/{n}") / len(draws) for n in range(3)]
    return Finding(gap(seen, wanted) < 0.02, say(drawn=str(seen), of=str([round(one, 3) for one in wanted])))


@claim("The released temperature 100 (right + 1) draws almost evenly.", "epic/epic_sampler.py")
def the_released_temperature_100_draws_almost_evenly() -> Finding:
    odds = []
    for right in (0, 1, 20, 40):
        told = Outcomes(40, right)
        odds.append(SpreadValue(temperature=100.0 * (right + 1))(told, ()))
    return Finding(max(odds) / min(odds) < 1.01, say(largest_over_smallest=max(odds) / min(odds)))


@claim("sigma^2 is the variance of (r - p) g, by enumeration over right and wrong samples of several norms.", "eq. 127")
def sigma_2_is_the_variance_of_g_by_enumeration_over_right_and() -> Finding:
    off = 0.0
    for rate, right, wrong in itertools.product((0.1, 0.5, 0.8), ((0.5, 1.0), (2.0, 2.0)), ((0.2, 3.0), (1.0, 0.4))):
        values = np.array([*((1 - rate) * g for g in right), *(-rate * g for g in wrong)])
        chances = np.array([rate / 2, rate / 2, (1 - rate) / 2, (1 - rate) / 2])
        own = float((chances * (values - (values * chances).sum()) ** 2).sum())
        told = Norms(sum(right) / 2, sum(g**2 for g in right) / 2, sum(wrong) / 2, sum(g**2 for g in wrong) / 2)
        off = max(off, abs(own - gradient_variance(rate, told)))
    return below(1e-12, off_by_enumeration=off)


@claim("A sample's norm is that of its log-prob's gradient by the logits, as autograd has it; the ledger keeps means.")
def a_samples_norm_is_that_of_its_log_probs_gradient_by_the_logits() -> Finding:
    bench = Bench(HARD_HALF, CURES, lr=0.5).run(2, every=9)
    logits = bench.policy.logits.detach().clone().requires_grad_()
    slope, off = torch.log_softmax(logits, -1), 0.0
    result = bench.step()
    for one in result.trajectories[::5]:
        (turn,) = one.turns
        logp = slope[torch.from_numpy(turn.observation), torch.from_numpy(turn.action)].sum()
        (by_logits,) = torch.autograd.grad(logp, logits, retain_graph=True)
        off = max(off, abs(float(by_logits.norm()) - GRADIENT_NORM.column.get(one)))
    known = Norms.of(bench.parts.ledger.outcomes("lab/0"))
    again = Ledger()
    again.restore(bench.parts.ledger.state())
    kept = known is not None and again.outcomes("lab/0") == bench.parts.ledger.outcomes("lab/0")
    return Finding(off < 1e-9 and kept, say(off_autograd=off, of_right_and_wrong=str(known)))


def _outcomes(rng: np.random.Generator) -> Outcomes:
    """Of 100 samples, whose norms are alike among right and among wrong ones."""
    successes = int(rng.integers(0, 101))
    right, wrong = rng.uniform(0.5, 3, size=2).tolist()
    return Outcomes(100, successes, {"norms": Summary(Moments().plus(right), Moments().plus(wrong))})


@claim("Greedy makes sum sigma^2/n least, as brute force does, and is near n proportional to sigma.", "Neyman")
def greedy_makes_sum_sigma_2_n_least_as_brute_force_does_and_is() -> Finding:
    rng, off, near = Key.of(0).derive("neyman").numpy(), 0.0, 0.0
    for _ in range(40):
        told = [_outcomes(rng) for _ in range(3)]
        worth = np.stack([NeymanWorth()(one, (), COUNTS) for one in told])
        counts = allocate(worth, 2, 24)
        ways = (way for way in itertools.product(COUNTS.tolist(), repeat=3) if sum(way) == 24)
        force = max(float(sum(row[n - 2] for row, n in zip(worth, way, strict=True))) for way in ways)
        off = max(off, abs(force - float(sum(row[n - 2] for row, n in zip(worth, counts, strict=True)))))
        sigma = np.sqrt([gradient_variance(one.mean, Norms.of(one) or Norms(1, 1, 1, 1)) for one in told])
        ideal = 24 * sigma / sigma.sum()
        near = max(near, float(np.abs(ideal - counts).max()) if (ideal >= 2).all() and (ideal <= 16).all() else 0.0)
    return Finding(off < 1e-12 and near < 1.01, say(off_brute_force=off, largest_distance_from_sigma=near))


@claim("The variance of the whole is never above that of equal counts, and equal where all scenarios are alike.")
def the_variance_of_the_whole_is_never_above_that_of_equal_counts() -> Finding:
    rng, worst = Key.of(1).derive("neyman").numpy(), -np.inf
    for _ in range(60):
        told = [_outcomes(rng) for _ in range(4)]
        worth = np.stack([NeymanWorth()(one, (), COUNTS) for one in told])
        ours = float(worth[range(4), allocate(worth, 2, 32) - 2].sum())
        worst = max(worst, float(worth[:, 8 - 2].sum()) - ours)
    alike = allocate(np.stack([NeymanWorth()(Outcomes(9, 3), (), COUNTS)] * 4), 2, 32).tolist()
    return Finding(worst < 1e-12 and alike == [8] * 4, say(largest_excess=worst, alike=str(alike)))


@claim(
    "Before a first group all norms are one, so sigma^2 = p q g^2; as shipped g = 1, T = 0.1, 2 to 16 samples, 16 "
    "scenarios a step.",
    "arXiv:2510.01037; T, g and the number of scenarios are chosen here",
)
def before_a_first_group_all_norms_are_one_so_sigma_2_p_q_g_2_as() -> Finding:
    # Of 4 tried 2 were right: p = 1/2.
    off = float(np.abs(NeymanWorth(unseen=2.0)(Outcomes(4, 2), (), COUNTS) + 0.25 * 2.0**2 / COUNTS).max())
    wanted = {
        "rollout.low": 2,
        "rollout.high": 16,
        "rollout.samples": 8,
        "rollout.value.unseen": 1.0,
        "curriculum.value.temperature": 0.1,
        "curriculum.prompts": 16,
        "curriculum.pool": None,
        "curriculum.even": 0.0,
    }
    found = {name: value_at(CURES, name) for name in wanted}
    return below(1e-12, found == wanted, off_by_hand=off)


SOLVED, HARD = (*[0.3] * 6, *[0.995] * 18), (*[0.03] * 6, *[0.2] * 3, 0.4, 0.5, 0.6, *[0.9] * 6, *[0.99] * 6)
EVEN = CURES.but({"curriculum.value": Even(), "rollout": Independent(samples=8)}, name="even")


def trained(rates: Sequence[float], recipe: Recipe, steps: int) -> list[Bench]:
    """Three seeds, with as many samples in each step."""
    world, start = coins(rates)
    return [Bench(world, recipe, seed, start=start, lr=0.1, prompts=6).run(steps, every=2) for seed in range(3)]


@claim(
    "Where most scenarios are solved already the same success takes fewer samples than drawn and shared out evenly; "
    "where many are hardly ever solved it does not, since they are seldom asked.",
    "arXiv:2510.01037; the second half derived",
)
def where_most_scenarios_are_solved_already_the_same_success_takes() -> Finding:
    first = {one.name: [float(bench.first(0.95) or 99) for bench in trained(SOLVED, one, 36)] for one in (CURES, EVEN)}
    ends = {one.name: [bench.success() for bench in trained(HARD, one, 60)] for one in (CURES, EVEN)}
    holds = max(first["cures"]) < min(first["even"]) and sum(ends["cures"]) < sum(ends["even"])
    return Finding(holds, lines(steps_to_95_percent=first, success_where_many_are_hard=ends))


SETTINGS = {"curriculum.pool": 12, "curriculum.prompts": 6}
claim.shipped(CURES, without={"rollout": Independent(samples=8)}, task="worked_sums", settings=SETTINGS, steps=3)
claim.shipped(CURES, without={"curriculum.value": Even()}, task="worked_sums", settings=SETTINGS, steps=3)

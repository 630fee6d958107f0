"""CurES's claims."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.curriculum.weighted import Even
from hocket.lab.claims.harness import Claims, Finding, below, gap, say
from hocket.lab.toys.rates import coins, ledger_of
from hocket.methods.data_and_rollout.cures import CURES, NeymanWorth, SpreadValue, gradient_variance
from hocket.rollout.allocated import allocate
from hocket.rollout.independent import Independent

claim = Claims("cures", "arXiv:2510.01037; ZexuSun/CurES")
COUNTS = np.arange(2, 17)
ASKING: Any = CURES.but({"curriculum.prompts": 2}).curriculum


@claim("The posterior mean of the success rate is (1 + right)/(2 + tried), the mean of its Beta density.")
def _() -> Finding:
    grid, off = np.linspace(0, 1, 200_001), 0.0
    for tried, right in ((0, 0), (5, 1), (40, 40), (17, 6)):
        density = grid**right * (1 - grid) ** (tried - right)
        mean = float((grid * density).sum() / density.sum())
        spread = float(((grid - mean) ** 2 * density).sum() / density.sum())
        told = Outcomes(tried, right)
        off = max(off, abs(told.mean - mean), abs(told.variance - spread), abs(told.mean - (1 + right) / (2 + tried)))
    return below(1e-4, off_by_quadrature=off)


@claim("Scenarios are drawn with probability proportional to exp(sqrt(p (1-p))/T).")
def _() -> Finding:
    world, _ = coins((0.5, 0.5, 0.5))
    ledger = ledger_of(0.0, 0.5, 0.9)
    draws = [ASKING(world, 3 + n, 1, ledger, Key.of(0))[0].id for n in range(4000)]
    rates = [Outcomes(1000, int(1000 * rate)).mean for rate in (0.0, 0.5, 0.9)]
    odds = [math.exp(math.sqrt(p * (1 - p)) / 0.1) for p in rates]
    wanted = [one / sum(odds) for one in odds]
    seen = [draws.count(f"lab/{n}") / len(draws) for n in range(3)]
    return Finding(gap(seen, wanted) < 0.02, say(drawn=str(seen), of=str([round(one, 3) for one in wanted])))


@claim("The released temperature 100 (right + 1) draws almost evenly.", "epic/epic_sampler.py")
def _() -> Finding:
    odds = []
    for right in (0, 1, 20, 40):
        told = Outcomes(40, right)
        odds.append(SpreadValue(temperature=100.0 * (right + 1))(told, ()))
    return Finding(max(odds) / min(odds) < 1.01, say(largest_over_smallest=max(odds) / min(odds)))


@claim(
    "p q^2 g_r^2 + p^2 q g_w^2 - p^2 q^2 (g_r - g_w)^2 is the variance of (r - p) g, by enumeration.", "equation 127"
)
def _() -> Finding:
    off = 0.0
    for rate, right, wrong in itertools.product((0.1, 0.5, 0.8), (0.5, 1.0), (0.2, 1.0, 3.0)):
        values, chances = np.array([(1 - rate) * right, -rate * wrong]), np.array([rate, 1 - rate])
        mean = float((values * chances).sum())
        own = float((chances * (values - mean) ** 2).sum())
        off = max(off, abs(own - gradient_variance(rate, right, wrong)))
    return below(1e-12, off_by_enumeration=off)


@claim("Greedy makes sum sigma^2/n least, as brute force does, and is near n proportional to sigma.", "Neyman")
def _() -> Finding:
    rng, off, near = Key.of(0).derive("neyman").numpy(), 0.0, 0.0
    for _ in range(40):
        told = [Outcomes(100, int(rng.integers(0, 101))) for _ in range(3)]
        worth = np.stack([NeymanWorth(1.0, 0.7)(one, (), COUNTS) for one in told])
        counts = allocate(worth, 2, 24)
        ways = (way for way in itertools.product(COUNTS.tolist(), repeat=3) if sum(way) == 24)
        force = max(float(sum(row[n - 2] for row, n in zip(worth, way, strict=True))) for way in ways)
        off = max(off, abs(force - float(sum(row[n - 2] for row, n in zip(worth, counts, strict=True)))))
        sigma = np.sqrt([gradient_variance(one.mean, 1.0, 0.7) for one in told])
        ideal = 24 * sigma / sigma.sum()
        near = max(near, float(np.abs(ideal - counts).max()) if (ideal >= 2).all() and (ideal <= 16).all() else 0.0)
    return Finding(off < 1e-12 and near < 1.01, say(off_brute_force=off, largest_distance_from_sigma=near))


@claim("The variance of the whole is never above that of equal counts, and equal where all scenarios are alike.")
def _() -> Finding:
    rng, worst = Key.of(1).derive("neyman").numpy(), -np.inf
    for _ in range(60):
        told = [Outcomes(100, int(rng.integers(0, 101))) for _ in range(4)]
        worth = np.stack([NeymanWorth()(one, (), COUNTS) for one in told])
        ours = float(worth[range(4), allocate(worth, 2, 32) - 2].sum())
        worst = max(worst, float(worth[:, 8 - 2].sum()) - ours)
    alike = allocate(np.stack([NeymanWorth()(Outcomes(9, 3), (), COUNTS)] * 4), 2, 32).tolist()
    return Finding(worst < 1e-12 and alike == [8] * 4, say(largest_excess=worst, alike=str(alike)))


SETTINGS = {"curriculum.pool": 12, "curriculum.prompts": 6}
claim.shipped(CURES, without={"rollout": Independent(samples=8)}, task="worked_sums", settings=SETTINGS, steps=3)
claim.shipped(CURES, without={"curriculum.value": Even()}, task="worked_sums", settings=SETTINGS, steps=3)

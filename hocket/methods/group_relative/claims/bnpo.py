"""What bnpo claims."""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor

from hocket import recipes
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import document, first_advantages, recorded
from hocket.lab.toys.group_statistics import EXACT, GRPO_EXACT, _binary_groups, finding
from hocket.methods.group_relative.bnpo import BetaDensity

claim = Claims("bnpo", "arXiv:2506.02864")


@claim("alpha = beta = 1 is REINFORCE with the mean, 3/2 is GRPO up to one constant; 0 at p = 0 and p = 1")
def _bnpo_limits() -> Finding:
    groups = _binary_groups(8)
    bnpo = recipes.find("bnpo")
    key = "credit.credit.weigh"
    ones = first_advantages(bnpo.but({key: (BetaDensity(alpha=1.0, beta=1.0),)}), recorded(groups))
    centred = first_advantages(recipes.find("dr-grpo"), recorded(groups))
    halves = first_advantages(bnpo.but({key: (BetaDensity(alpha=1.5, beta=1.5),)}), recorded(groups))
    normal = first_advantages(GRPO_EXACT.but({"credit.ddof": 0}), recorded(groups))
    ratios = [a / b for a, b in zip(halves, normal, strict=True) if b]
    plain = max(abs(a - b) for a, b in zip(ones, centred, strict=True))
    return finding(
        f"alpha = beta = 1: {plain:.1e} from R - mean; 3/2: ratio to GRPO {min(ratios):.6f} to {max(ratios):.6f} "
        f"(pi/8 = {math.pi / 8:.6f}); all right and all wrong: {halves[-1]} and {halves[0]}",
        plain < EXACT,
        max(ratios) - min(ratios) < EXACT,
        halves[0] == halves[-1] == 0,
    )


@claim("alpha and beta are fitted to the batch by moments", "arXiv:2506.02864; authors' code")
def _bnpo_fit() -> Finding:
    groups = [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 0.0],
    ]
    found = first_advantages(recipes.find("bnpo"), recorded(groups))
    rates = [statistics.fmean(group) for group in groups]
    mean, variance = statistics.fmean(rates), statistics.variance(rates)
    k = mean * (1 - mean) / variance - 1
    alpha, beta = max(1.0, 1 + k * mean / 3), max(1.0, 1 + k * (1 - mean) / 3)
    norm = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta)
    worst = 0.0
    for number, (group, rate) in enumerate(zip(groups, rates, strict=True)):
        density = norm * rate ** (alpha - 1) * (1 - rate) ** (beta - 1)
        for place, reward in enumerate(group):
            expected = (reward - rate) / density if density else 0.0
            worst = max(worst, abs(found[4 * number + place] - expected))
    return finding(f"alpha {alpha:.3f}, beta {beta:.3f}: {worst:.1e} from the formula by hand", worst < EXACT)


@claim("The variance of the gradient estimate is least near (1 + a/3, 1 + b/3)", "arXiv:2506.02864, theorem 1")
def _bnpo_variance() -> Finding:
    """E[p (1 - p) / f(p)^2] over simulated p ~ Beta(a, b), on a grid of (alpha, beta) around the claimed minimum.

    It is the variance of (R - p) grad log pi / f(p) when the score function has unit variance and does not depend on R.
    """
    saw, near = [], True
    for a, b in ((3.0, 6.0), (1.5, 1.5)):
        rates = torch.from_numpy(Key.of(5).derive(str(a)).numpy().beta(a, b, 100_000)).clamp(1e-6, 1 - 1e-6)

        def variance(alpha: float, beta: float, rates: Tensor = rates) -> float:
            norm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
            log = norm + (alpha - 1) * rates.log() + (beta - 1) * torch.log1p(-rates)
            return float((rates * (1 - rates) * (-2 * log).exp()).mean())

        claimed = (1 + a / 3, 1 + b / 3)
        steps = [0.1 * place for place in range(-3, 4)]
        grid = {(i, j): variance(claimed[0] + i, claimed[1] + j) for i in steps for j in steps}
        best = min(grid, key=lambda place: grid[place])
        others = variance(1.0, 1.0), variance(1.5, 1.5)
        near &= max(abs(best[0]), abs(best[1])) < 0.15 and min(others) > 0.999 * grid[best]
        saw.append(
            f"a {a}, b {b}: least at ({claimed[0] + best[0]:.2f}, {claimed[1] + best[1]:.2f}), claimed "
            f"({claimed[0]:.2f}, {claimed[1]:.2f}); variance {grid[best]:.4f}, "
            f"centred {others[0]:.4f}, GRPO {others[1]:.4f}"
        )
    return finding("; ".join(saw), near)


@claim("Several rewards get their own advantages, which are averaged")
def _bnpo_parts() -> Finding:
    """Several rewards: each normalised apart, then averaged."""
    accuracy, form = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    rows = [
        {"group": str(number // 3), "scores": {"accuracy": a, "format": f}, "logp": [-1.0]}
        for number, (a, f) in enumerate(zip(accuracy, form, strict=True))
    ]
    bnpo = recipes.find("bnpo")
    found = first_advantages(bnpo.but({"credit.scores": ("accuracy", "format")}), document(rows))
    apart = [first_advantages(bnpo, recorded([part[:3], part[3:]])) for part in (accuracy, form)]
    worst = max(abs(x - (a + f) / 2) for x, a, f in zip(found, *apart, strict=True))
    return finding(f"{worst:.1e} from the mean of both", worst < EXACT)

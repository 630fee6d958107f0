"""BNPO's claims."""

import math
from statistics import fmean, variance

import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.groups import document, first_advantages, recorded
from hocket.lab.toys.enumerable_groups import GRPO_EXACT, binary_groups
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.group_relative.bnpo.method import BetaDensity
from hocket.recipes import find

claim = Claims("bnpo", "arXiv:2506.02864")
BNPO = find("bnpo")


@claim("alpha = beta = 1 is REINFORCE with the mean, 3/2 is GRPO up to one constant; 0 at p = 0 and p = 1")
def alpha_beta_1_is_reinforce_with_the_mean_3_2_is_grpo_up_to_one() -> Finding:
    fixed = [BNPO.but({"credit.credit.weigh": (BetaDensity(alpha=one, beta=one),)}) for one in (1.0, 1.5)]
    recipes = (*fixed, DR_GRPO, GRPO_EXACT.but({"credit.ddof": 0}))
    ones, halves, centred, normal = (first_advantages(one, recorded(binary_groups(8))) for one in recipes)
    ratios, apart = [a / b for a, b in zip(halves, normal, strict=True) if b], gap(ones, centred)
    holds = apart < EXACT and max(ratios) - min(ratios) < EXACT and halves[0] == halves[-1] == 0
    ends = f"ratio to GRPO {min(ratios):.6f} to {max(ratios):.6f} (pi/8 = {math.pi / 8:.6f})"
    edges = say(all_right=halves[-1], wrong=halves[0])
    return Finding(holds, f"alpha = beta = 1: {say(off_the_mean=apart)}; 3/2: {ends}, {edges}")


@claim("alpha and beta are fitted to the batch by moments", "arXiv:2506.02864; authors' code")
def alpha_and_beta_are_fitted_to_the_batch_by_moments() -> Finding:
    groups = [binary_groups(4)[right] for right in (1, 2, 4, 0, 3)]
    mean = fmean(rates := [fmean(group) for group in groups])
    k = mean * (1 - mean) / variance(rates) - 1
    alpha, beta = max(1.0, 1 + k * mean / 3), max(1.0, 1 + k * (1 - mean) / 3)
    norm, by_hand = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta), []
    for group, rate in zip(groups, rates, strict=True):
        density = norm * rate ** (alpha - 1) * (1 - rate) ** (beta - 1)
        by_hand += [(reward - rate) / (density or math.inf) for reward in group]
    apart = gap(first_advantages(BNPO, recorded(groups)), by_hand)
    return Finding(apart < EXACT, say(alpha=alpha, beta=beta, off_the_formula_by_hand=apart))


@claim("The variance of the gradient estimate is least near (1 + a/3, 1 + b/3)", "arXiv:2506.02864, theorem 1")
def the_variance_of_the_gradient_estimate_is_least_near() -> Finding:
    """E[p (1 - p) / f(p)^2] over simulated p ~ Beta(a, b), on a grid of (alpha, beta) around the claimed minimum.

    It is the variance of (R - p) grad log pi / f(p) when the score function has unit variance and does not depend on R.
    """
    figures, near = [], True
    for a, b in ((3.0, 6.0), (1.5, 1.5)):
        rates = torch.from_numpy(Key.of(5).derive(str(a)).numpy().beta(a, b, 100_000)).clamp(1e-6, 1 - 1e-6)

        def spread(alpha: float, beta: float, rates: torch.Tensor = rates) -> float:
            norm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
            log = norm + (alpha - 1) * rates.log() + (beta - 1) * torch.log1p(-rates)
            return float((rates * (1 - rates) * (-2 * log).exp()).mean())

        steps, (mode, other) = [0.1 * place for place in range(-3, 4)], (1 + a / 3, 1 + b / 3)
        grid = {(i, j): spread(mode + i, other + j) for i in steps for j in steps}
        i, j = best = min(grid, key=lambda place: grid[place])
        centred, grpo = spread(1.0, 1.0), spread(1.5, 1.5)
        near &= max(abs(i), abs(j)) < 0.15 and min(centred, grpo) > 0.999 * grid[best]
        points = f"least at ({mode + i:.2f}, {other + j:.2f}), claimed ({mode:.2f}, {other:.2f})"
        figures.append(f"{say(a=a, b=b)} {points}, variance {grid[best]:.4f}, centred {centred:.4f}, GRPO {grpo:.4f}")
    return Finding(near, "; ".join(figures))


@claim("Several rewards get their own advantages, which are averaged")
def several_rewards_get_their_own_advantages_which_are_averaged() -> Finding:
    accuracy, form = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    rows = recorded([accuracy[:3], accuracy[3:]])["trajectories"]
    for row, a, f in zip(rows, accuracy, form, strict=True):
        row["scores"] = {"accuracy": a, "format": f}
    both = first_advantages(BNPO.but({"credit.scores": ("accuracy", "format")}), document(rows))
    apart = [first_advantages(BNPO, recorded([part[:3], part[3:]])) for part in (accuracy, form)]
    return below(EXACT, off_the_mean_of_both=gap(both, [fmean(pair) for pair in zip(*apart, strict=True)]))


@claim(
    "Rewards of [least, most] are mapped to [0, 1]; a mean beyond counts as the nearest end, "
    "and a factor as 1e6 at most."
)
def rewards_of_least_most_are_mapped_to_0_1_a_mean_beyond_counts_as() -> Finding:
    wide = BNPO.but({"credit.credit.weigh": (BetaDensity(least=-1.0, most=3.0),)})
    groups = [binary_groups(4)[right] for right in (1, 2, 1)]
    stretched = [[4 * reward - 1 for reward in group] for group in groups]
    off = gap(first_advantages(wide, recorded(stretched)), first_advantages(BNPO, recorded(groups)))
    beyond = first_advantages(BNPO, recorded([[1.0, 2.0], [0.0, 1.0]]))[:2]
    return Finding(off < EXACT and beyond == [-5e5, 5e5], say(off=off, of_a_mean_of_1_5=beyond))


claim.spares("bnpo: credit.credit.ddof = 40", "its scale is None: nothing is divided")
claim.spares("bnpo: credit.credit.epsilon = 3.9999999999999996e-05", "its scale is None: nothing is divided")
claim.spares("bnpo: credit.credit.epsilon = 0.0", "its scale is None: nothing is divided")
claim.spares(
    "self.alpha is not None and self.beta is not None -> self.alpha is not None or self.beta is not None",
    "both are fixed or neither is, anything else is refused",
)

claim.shipped(BNPO, "credit")

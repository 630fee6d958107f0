"""BAPO's claims."""

from collections.abc import Sequence
from statistics import mean

import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, batches, each, gap, gradient, inspect_rows, runs, same_gradient, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.toys.quick_worlds import summing
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.bapo import BAPO, positive_share

claim = Claims("bapo", "derived")
PPO = GRPO.but({"objective.aggregate": "token-mean"})


@claim("started at its limits it is PPO with a fixed asymmetric clip")
def started_at_its_limits_it_is_ppo_with_a_fixed_asymmetric_clip() -> Finding:
    fixed = BAPO.but({"objective.low": 0.9, "objective.high": 3.0, "objective.dual": None})
    return same_gradient(fixed, PPO.but({"objective.low": 0.1, "objective.high": 2.0}), 20, "objectives", gap=0.6)


@claim("on-policy the bounds do not change the gradient")
def on_policy_the_bounds_do_not_change_the_gradient() -> Finding:
    # The bounds move, since no bound reaches a share of 1.
    whole, plain = BAPO.but({"objective.share": 1.0}), list(batches(20, "objectives", gap=0.0))
    moved = sum(inspect_rows(whole, one["trajectories"])["metrics"]["clip/high"] > 1.2 for one in plain)
    off = max(gap(gradient(whole, one), gradient(PPO, one)) for one in plain)
    return Finding(off < EXACT and moved > 0, say(largest_difference=off, batches=20, bounds_moved_in=moved))


@claim(
    "at the bounds found the positive share is at least rho_0, or both stand at their maxima",
    "arXiv 2510.18927, algorithm 1",
)
def at_the_bounds_found_the_positive_share_is_at_least_rho_0_or() -> Finding:
    metrics = [inspect_rows(BAPO, one["trajectories"])["metrics"] for one in batches(40, "objectives", gap=0.8)]
    short = [one for one in metrics if one["clip/positive"] < 0.5]
    limits = sum(abs(one["clip/low"] - 0.9) + abs(one["clip/high"] - 3.0) < EXACT for one in short)
    saw = say(batches=40, reached_half=40 - len(short), stand_at_both_limits=limits)
    return Finding(limits == len(short) < 40, saw)


@claim(
    "bounds, loss, gradient and figures are algorithm 1's, counted by hand: 0.6 to 0.9 by 0.05, 1.2 to 3 by 0.1, half "
    "of the flow, dual clip at 3; a batch is learnt from twice",
    "arXiv 2510.18927, algorithm 1; the number of updates is chosen here",
)
def bounds_loss_gradient_and_figures_are_algorithm_1s_counted_by() -> Finding:
    seen: set[tuple[float, float]] = set()

    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        ratio = torch.cat([(one.logp - one.old).exp() for one in answers])
        advantage = torch.cat([one.advantage for one in answers])

        def carries(low: float, high: float) -> torch.Tensor:
            """Which decisions of either sign have a gradient."""
            return torch.where(advantage > 0, ratio < high, (ratio > low) & (ratio < 3.0)) & (advantage != 0)

        def half(low: float, high: float) -> float:
            flow = (ratio * advantage).detach()[carries(low, high)]
            return float(flow[flow > 0].sum() / flow.abs().sum()) if float(flow.abs().sum()) else 1.0

        lows = [min(0.6 + 0.05 * step, 0.9) for step in range(7)]
        low = next((one for one in lows if half(one, 1.2) >= 0.5), 0.9)
        highs = [min(1.2 + 0.1 * step, 3.0) for step in range(19)]
        high = next((one for one in highs if half(low, one) >= 0.5), 3.0)
        seen.add((low, high))
        bounded = torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
        gain = torch.where(advantage < 0, torch.maximum(bounded, 3.0 * advantage), bounded)
        active = advantage != 0
        figures = {"clip/low": low, "clip/high": high, "clip/positive": half(low, high)}
        return -gain.mean(), {**figures, "ratio/clipped": float((~carries(low, high))[active].double().mean())}

    many = (rows for spread in (0.2, 0.9) for rows in stale_rows("bapo", str(spread), count=16, gap=spread))
    gaps = [off(BAPO, rows, loss) for rows in many]
    lows, highs = (len(set(bounds)) for bounds in zip(*seen, strict=True))
    # Where no positive decision carries a gradient the share is 0, and 1 where none does at all.
    one = torch.ones(1, dtype=torch.float64)
    ends = [positive_share(one[:size], -one[:size], 0.6, 1.2, 3.0) for size in (1, 0)]
    holds = max(gaps) < 1e-9 and min(lows, highs) > 2 and ends == [0.0, 1.0]
    figures = say(off_by_hand=max(gaps), lower_bounds_found=lows, upper=highs)
    return Finding(holds and value_at(BAPO, "update.epochs") == 2, figures)


@claim(
    "counted by gradient the share rises with the lower bound, counted as in the released code it falls",
    "released code, recipe/bapo/policy_loss.py",
)
def counted_by_gradient_the_share_rises_with_the_lower_bound() -> Finding:
    rng, bounds = Key.of(0).derive("checks", "objectives", "released").numpy(), (0.6, 0.7, 0.8, 0.9)
    ratio = torch.from_numpy(rng.uniform(0.2, 1.6, 400))
    gain = torch.from_numpy(rng.choice([1.0, -1.0], 400, p=[0.2, 0.8]))
    ours = [positive_share(ratio, gain, low, 1.2, 3.0) for low in bounds]
    good = float((ratio.clamp(max=1.2) * gain.clamp(min=0)).sum())
    bad = [float((ratio.clamp(min=low) * (-gain).clamp(min=0)).sum()) for low in bounds]
    theirs = [good / (good + one) for one in bad]
    exact = [positive_share(ratio, gain, low, 1.2, None, clipped=True) for low in bounds]
    holds = (
        gap(exact, theirs) < EXACT
        and ours == sorted(ours)
        and theirs == sorted(theirs, reverse=True)
        and ours[0] < ours[-1]
    )
    saw = f"gradient-carrying {ours[0]:.3f} -> {ours[-1]:.3f}, released {theirs[0]:.3f} -> {theirs[-1]:.3f}"
    return Finding(holds, f"lower bound from 0.6 to 0.9: {saw}")


@claim("with clipped decisions counted the search goes further: its own first steps lower the share", "released code")
def with_clipped_decisions_counted_the_search_goes_further_its_own() -> Finding:
    released, found = BAPO.but({"objective.clipped": True}), []
    for one in batches(40, "objectives", gap=0.8):
        ours, theirs = (inspect_rows(recipe, one["trajectories"])["metrics"] for recipe in (BAPO, released))
        found.append((ours["clip/low"], ours["clip/high"], theirs["clip/low"], theirs["clip/high"]))
    further = sum(row[2:] > row[:2] for row in found)
    return Finding(further > sum(row[2:] < row[:2] for row in found), say(batches=40, further_in=further))


@claim(
    "on stale, mostly bad samples no run collapses and more is learnt than with a fixed clip; entropy is no higher",
    "arXiv 2510.18927, section 5",
    slow=True,
)
def on_stale_mostly_bad_samples_no_run_collapses_and_more_is_learnt() -> Finding:
    # Only a sixth of the samples is right at first.
    sides = (one.but({"update.epochs": 4}) for one in (BAPO, PPO.but({"name": "fixed", "objective.low": 0.4})))
    made = runs(summing(2, 6, 3, context="last"), *sides, steps=30, lag=8, lr=0.1)
    success, entropy = each(made, Bench.success), each(made, lambda one: mean(r.entropy for r in one.readings))
    holds = min(success["bapo"]) > 0.4 and mean(success["bapo"]) > max(success["fixed"])
    return Finding(holds, say(success_from=0.17, to=success, mean_entropy_over_the_run=entropy))


claim.spares("bapo: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(BAPO, "objective")

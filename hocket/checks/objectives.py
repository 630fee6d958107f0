"""Rows that differ in their ratio or clip, or that contrast right with wrong: gmpo, nft, disco, bapo."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import mean, variance
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.off_policy import TANGLED
from hocket.keys import Key
from hocket.lab import Bench, World
from hocket.lab.bandit import flat
from hocket.lab.documents import random_document
from hocket.lab.stale import run_stale
from hocket.microscope import Reading, look
from hocket.objectives import GeometricMean, HingeTrustRegion
from hocket.objectives.adaptive_clip import positive_share
from hocket.objectives.discriminative import discrimination
from hocket.objectives.geometric import clipped_log_ratio
from hocket.objectives.negative_aware import implied_negative
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.objectives import BAPO, DISCO, GMPO, NFT
from hocket.segments import segment_mean
from hocket.stages import Policy
from hocket.types import Batch, Evaluation, Quantity

KEY = Key.of(0).derive("checks", "objectives")


def documents(number: int, **settings: Any) -> list[dict[str, Any]]:
    """Random batches."""
    return [random_document(KEY.derive("document", n), **settings) for n in range(number)]


def verdict_document(rates: Sequence[int], samples: int = 16) -> dict[str, Any]:
    """A group per rate, that many of its answers right; one decision each, policy and old policy equal."""
    rows = [
        {"group": f"{rate}", "scores": {"reward": float(number < rate)}, "logp": [-1.0]}
        for rate in rates
        for number in range(samples)
    ]
    return {"version": 1, "trajectories": rows}


def spread(values: Sequence[float]) -> str:
    """Lowest, mean and highest."""
    return f"{min(values):.3f}/{mean(values):.3f}/{max(values):.3f}"


# ---------------------------------------------------------------- gmpo


def gmpo_starts_as_grpo() -> Finding:
    """Gradients through both recipes where policy and old policy agree."""
    worst = 0.0
    for document in documents(20, gap=0.0):
        worst = max(worst, float((flat(look(GMPO, document)) - flat(look(GRPO, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 20 batches: {worst:.1e}")


def gmpo_below_arithmetic_mean() -> Finding:
    """The objective's own value per trajectory, unclipped, against the mean of ratios computed apart."""
    objective = GeometricMean(low=1e3, high=1e3)
    slack = math.inf
    for document in documents(50, gap=1.0):
        read = Reading(document)
        sign = torch.ones(len(read.batch.occurrences), dtype=torch.float64)
        terms = objective(Evaluation(read.logp), read.batch.credited(advantage=-sign))
        geometric = read.by_trajectory(terms.value)
        for row, values in zip(document["trajectories"], geometric, strict=True):
            ratios = [math.exp(a - b) for a, b in zip(row["logp"], row["logp_proximal"], strict=True)]
            slack = min(slack, mean(ratios) - values[0])
    return Finding(slack > -1e-12, f"least of arithmetic minus geometric mean over 600 answers: {slack:.1e}")


def gmpo_outlier() -> Finding:
    """One token of ratio R among T - 1 of ratio 1, unclipped."""
    objective, worst = GeometricMean(low=1e3, high=1e3), 0.0
    for length in (1, 2, 7, 64):
        for factor in (0.01, 3.0, 1e4):
            old = [-2.0] * length
            rows = [{"group": "g", "scores": {"reward": 1.0}, "logp": [-2.0 + math.log(factor), *old[1:]]}]
            rows[0]["logp_behaviour"] = old
            read = Reading({"version": 1, "trajectories": rows})
            ones = torch.ones(length, dtype=torch.float64)
            loss = float(objective(Evaluation(read.logp), read.batch.credited(advantage=ones)).total())
            worst = max(worst, abs(-loss / factor ** (1 / length) - 1))
    return Finding(worst < 1e-9, f"relative error of R^(1/T) for T in 1, 2, 7, 64 and R in 0.01, 3, 1e4: {worst:.1e}")


# ---------------------------------------------------------------- nft


def nft_coefficients() -> Finding:
    """The gradient of one-decision answers is minus their coefficient."""
    recipe = NFT.but({"objective.prompts": "deviation", "objective.aggregate": "sequence-sum"})
    rates, samples, worst = range(1, 16), 16, 0.0
    document = verdict_document(rates, samples)
    found = -flat(look(recipe, document)) * len(document["trajectories"])
    for place, rate in enumerate(rates):
        q = rate / samples
        wanted = torch.tensor([float(n < rate) - q for n in range(samples)]).double() / math.sqrt(q * (1 - q))
        worst = max(worst, float((found[place * samples : (place + 1) * samples] - wanted).abs().max()))
    return Finding(worst < 1e-12, f"largest difference from (R - mean)/std, success rates 1/16 to 15/16: {worst:.1e}")


def nft_equals_grpo_on_policy() -> Finding:
    """Gradients through both recipes on random on-policy batches."""
    grpo = GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0, "objective.aggregate": "token-mean"})
    nft = NFT.but({"objective.prompts": "deviation", "objective.aggregate": "token-mean"})
    worst = 0.0
    for document in documents(20, gap=0.0, samples=8):
        worst = max(worst, float((flat(look(nft, document)) - flat(look(grpo, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 20 on-policy batches: {worst:.1e}")


def nft_without_negatives() -> Finding:
    """Rejection fine-tuning maximises the likelihood of right answers: its gradient, computed apart."""
    recipe = NFT.but({"objective.negatives": 0.0, "objective.prompts": "one", "objective.aggregate": "sequence-sum"})
    worst = 0.0
    for document in documents(20, gap=0.5):
        rows = document["trajectories"]
        mixed = {
            group
            for group in {row["group"] for row in rows}
            if len({row["scores"]["reward"] for row in rows if row["group"] == group}) > 1
        }
        wanted = [
            -float(row["scores"]["reward"] == 1 and row["group"] in mixed) / len(rows)
            for row in rows
            for _ in row["logp"]
        ]
        difference = flat(look(recipe, document)) - torch.tensor(wanted, dtype=torch.float64)
        worst = max(worst, float(difference.abs().max()))
    return Finding(worst < 1e-12, f"largest difference from the likelihood gradient of right answers: {worst:.1e}")


def nft_negative_policy_sums_to_one() -> Finding:
    """By enumeration over twelve answers."""
    rng, worst = KEY.derive("negative policy").numpy(), 0.0
    for _ in range(200):
        old, now = (torch.softmax(torch.from_numpy(rng.normal(size=12)) * 2, 0) for _ in range(2))
        rate = torch.tensor(float(rng.uniform(0.02, 0.98)), dtype=torch.float64)
        worst = max(worst, abs(float((old * implied_negative(now / old, rate)).sum()) - 1))
        # Split the old policy by a true verdict: then the implied policy is that of wrong answers itself.
        right = torch.from_numpy(rng.random(12) < 0.5)
        right[0], right[1] = True, False
        share = (old * right).sum()
        implied = old * implied_negative(old * right / share / old, share)
        worst = max(worst, float((implied - old * ~right / (1 - share)).abs().max()))
    return Finding(worst < 1e-12, f"largest error of the sum, and of the policy of wrong answers: {worst:.1e}")


# ---------------------------------------------------------------- disco


def disco_limit() -> Finding:
    """The soft-max objective at growing temperatures against plain means."""
    errors = []
    rng = KEY.derive("disco limit").numpy()
    score = torch.from_numpy(-rng.exponential(size=24))
    right = torch.arange(24) % 3 == 0
    group = torch.arange(24) // 6
    plain = discrimination(score, right, ~right, group, 4, None)
    apart = torch.stack([score[(group == g) & ~right].mean() - score[(group == g) & right].mean() for g in range(4)])
    for temperature in (10.0, 100.0, 1000.0, 1e4):
        errors.append(float((discrimination(score, right, ~right, group, 4, temperature) - plain).abs().max()))
    tenfold = all(0.08 < after / before < 0.12 for before, after in itertools.pairwise(errors))
    holds = tenfold and float((plain - apart).abs().max()) < 1e-14
    return Finding(
        holds, "distance from the plain means at tau 10, 100, 1e3, 1e4: " + ", ".join(f"{e:.1e}" for e in errors)
    )


def disco_penalty() -> Finding:
    """The penalty's gradient against beta max(0, KL - delta) grad KL, KL computed apart by autograd."""
    worst, active = 0.0, 0
    for number, document in enumerate(documents(30, gap=0.15)):
        radius = (0.0, 0.005, 0.02)[number % 3]
        read = Reading(document)
        leaf = read.logp.clone().requires_grad_()
        loss = HingeTrustRegion(radius=radius, coefficient=7.0)(Evaluation(leaf), read.batch).total()
        (found,) = torch.autograd.grad(loss, leaf)
        other = read.logp.clone().requires_grad_()
        change = other - read.batch.logp["proximal"].values
        divergence = (change.exp() - 1 - change).mean()
        (slope,) = torch.autograd.grad(divergence, other)
        excess = max(0.0, float(divergence.detach()) - radius)
        active += excess > 0
        worst = max(worst, float((found - 7.0 * excess * slope).abs().max()))
    return Finding(
        worst < 1e-12 and 0 < active < 30, f"largest difference {worst:.1e}; outside the ball in {active} of 30"
    )


def disco_question_weight() -> Finding:
    """How much a question's right answers are raised in all, by its success rate."""
    rates, samples = range(1, 16), 16
    document = verdict_document(rates, samples)
    grpo = GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0})
    disco = DISCO.but({"regularisers": (), "objective.temperature": None})
    soft = DISCO.but({"regularisers": ()})
    lifts = {}
    for recipe in (grpo, disco, soft):
        gradient = flat(look(recipe, document)).reshape(len(rates), samples)
        lifts[id(recipe)] = [-float(gradient[n, :rate].sum()) * len(rates) for n, rate in enumerate(rates)]
    wanted = [math.sqrt(rate / samples * (1 - rate / samples)) for rate in rates]
    error = max(abs(a - b) for a, b in zip(lifts[id(grpo)], wanted, strict=True))
    flatness = max(abs(value - 1) for recipe in (disco, soft) for value in lifts[id(recipe)])
    return Finding(
        error < 1e-12 and flatness < 1e-12,
        f"GRPO's weight is sqrt(p(1-p)) to {error:.0e}, from {wanted[0]:.3f} at 1/16 to 0.5; DisCO's is 1 to "
        f"{flatness:.0e}",
    )


# ---------------------------------------------------------------- bapo


def bapo_fixed_bounds() -> Finding:
    """Gradients through both recipes on off-policy batches."""
    fixed = BAPO.but({"objective.low": 0.9, "objective.high": 3.0, "objective.dual": None})
    ppo = GRPO.but({"objective.low": 0.1, "objective.high": 2.0, "objective.aggregate": "token-mean"})
    worst = 0.0
    for document in documents(20, gap=0.6):
        worst = max(worst, float((flat(look(fixed, document)) - flat(look(ppo, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients from PPO clipped to [0.9, 3]: {worst:.1e}")


def bapo_on_policy() -> Finding:
    """With ratios of 1 the bounds move, since no bound reaches a share of 1, and nothing changes."""
    ppo, worst, moved = GRPO.but({"objective.aggregate": "token-mean"}), 0.0, 0
    for document in documents(20, gap=0.0):
        found = look(BAPO.but({"objective.share": 1.0}), document)
        moved += found["metrics"]["clip/high"] > 1.2
        worst = max(worst, float((flat(found) - flat(look(ppo, document))).abs().max()))
    return Finding(
        worst < 1e-12 and moved > 0, f"largest difference {worst:.1e}, though bounds moved in {moved} of 20 batches"
    )


def bapo_search() -> Finding:
    """At the bounds found the positive share reaches the target, or both stand at their limits."""
    reached = limits = wrong = 0
    for document in documents(40, gap=0.8):
        metrics = look(BAPO, document)["metrics"]
        if metrics["clip/positive"] >= 0.5:
            reached += 1
        elif abs(metrics["clip/low"] - 0.9) + abs(metrics["clip/high"] - 3.0) < 1e-12:
            limits += 1
        else:
            wrong += 1
    return Finding(wrong == 0 and reached > 0, f"of 40 batches {reached} reached 0.5, {limits} stand at both limits")


def bapo_released_search_works_against_itself() -> Finding:
    """Counted at their bound, clipped negatives weigh more the higher the lower bound; counted by gradient, less."""
    rng = KEY.derive("released").numpy()
    ratio = torch.from_numpy(rng.uniform(0.2, 1.6, 400))
    gain = torch.from_numpy(rng.choice([1.0, -1.0], 400, p=[0.2, 0.8]))

    def released(low: float) -> float:
        good = float((ratio.clamp(max=1.2) * gain.clamp(min=0)).sum())
        bad = float((ratio.clamp(min=low) * (-gain).clamp(min=0)).sum())
        return good / (good + bad)

    ours = [positive_share(ratio, gain, low, 1.2, 3.0) for low in (0.6, 0.7, 0.8, 0.9)]
    theirs = [released(low) for low in (0.6, 0.7, 0.8, 0.9)]
    holds = ours == sorted(ours) and theirs == sorted(theirs, reverse=True) and ours[0] < ours[-1]
    return Finding(
        holds,
        f"from 0.6 to 0.9: gradient-carrying {ours[0]:.3f} -> {ours[-1]:.3f}, released {theirs[0]:.3f} -> "
        f"{theirs[-1]:.3f}",
    )


# ---------------------------------------------------------------- training

SUMS = World(
    questions=2, tokens=5, horizon=2, context="last", reward=lambda question, answer: float(sum(answer) % 5 == question)
)

SEEDS = tuple(range(5))


def factor_range(recipe: Recipe, policy: Policy, batch: Batch) -> float:
    """The range over trajectories of what multiplies the advantage: the mean ratio, or the clipped geometric one."""
    with torch.no_grad():
        now = policy.evaluate(batch, {Quantity.LOGP}).logp
    seen = batch.occurrences
    gap = (now - batch.logp["behaviour"].values.double())[seen.decision]
    if recipe.name == "gmpo":
        gap = clipped_log_ratio(gap, seen.advantage, 0.4, 0.4)
        factor = segment_mean(gap, seen.trajectory, batch.trajectories).exp()
    else:
        factor = segment_mean(gap.exp(), seen.trajectory, batch.trajectories)
    return float(factor.max() - factor.min())


def gmpo_stale() -> Finding:
    """Samples eight steps old and eight updates a step, ten seeds."""
    ranges: dict[str, list[float]] = {}
    kept: dict[str, list[float]] = {}
    for recipe in (GMPO, GRPO):
        for seed in range(10):
            seen: list[float] = []

            def after(policy: Policy, batch: Batch, recipe: Recipe = recipe, seen: list[float] = seen) -> None:
                seen.append(factor_range(recipe, policy, batch))

            changed = recipe.but({"update.epochs": 8, "rollout.samples": 16})
            bench = run_stale(Bench(TANGLED, changed, seed=seed, lr=0.3, steps=40), 40, lag=8, every=5, after=after)
            ranges.setdefault(recipe.name, []).append(mean(seen))
            kept.setdefault(recipe.name, []).append(bench.success())
    collapsed = {name: sum(value < 0.2 for value in values) for name, values in kept.items()}
    holds = mean(ranges["gmpo"]) < mean(ranges["grpo"]) and collapsed["gmpo"] < collapsed["grpo"]
    return Finding(
        holds,
        f"range of sequence factors {spread(ranges['gmpo'])} against {spread(ranges['grpo'])} of GRPO, collapsed runs "
        f"{collapsed['gmpo']} against {collapsed['grpo']} of 10, success {mean(kept['gmpo']):.2f} against "
        f"{mean(kept['grpo']):.2f}",
    )


def nft_off_policy() -> Finding:
    """Supervised learning with and without its negative half, and GRPO, on samples four steps old."""
    figures = {}
    rejection = NFT.but({"name": "rejection", "objective.negatives": 0.0})
    for recipe in (NFT, rejection, GRPO):
        runs = [run_stale(Bench(SUMS, recipe, seed=seed, lr=0.1, steps=40), 40, lag=4, every=5) for seed in SEEDS]
        figures[recipe.name] = [mean(reading.success for reading in bench.readings) for bench in runs]
    ours, theirs = figures["nft"], figures["grpo"]
    noise = 2 * math.sqrt((variance(ours) + variance(theirs)) / len(SEEDS))
    holds = min(ours) > mean(figures["rejection"]) and mean(ours) > mean(theirs) - noise
    return Finding(
        holds,
        "4 steps stale, mean success over 40 steps, lowest/mean/highest of 5 seeds: "
        + ", ".join(f"{name} {spread(values)}" for name, values in figures.items()),
    )


HARD = World(
    # One question in six is easy.
    questions=6,
    tokens=6,
    horizon=2,
    context="last",
    reward=lambda question, answer: float(answer[0] < 4 if question == 0 else answer == (question - 1, question)),
)


def disco_hard_questions() -> Finding:
    """Both recipes make four updates of each batch."""
    radius, figures, kls = 2e-3, {}, []
    for recipe in (GRPO.but({"update.epochs": 4}), DISCO.but({"update.epochs": 4, "regularisers.0.radius": radius})):
        rows = []
        for seed in SEEDS:
            bench = Bench(HARD, recipe, seed=seed, lr=0.05, steps=40).run(40, every=40)
            rows.append((bench.success(), bench.entropy()))
            if recipe.name == "disco":
                kls.append(mean(metrics["kl/trust"] for metrics in bench.history if "kl/trust" in metrics))
        figures[recipe.name] = rows
    ours, theirs = ([value for value, _ in figures[name]] for name in ("disco", "grpo"))
    entropies = [entropy for _, entropy in figures["disco"]]
    error = math.sqrt((variance(ours) + variance(theirs)) / len(SEEDS))
    holds = mean(ours) - mean(theirs) > 3 * error and min(entropies) > 0.1 and max(kls) < 2 * radius
    return Finding(
        holds,
        f"success after 40 steps DisCO {spread(ours)}, GRPO {spread(theirs)}; DisCO's entropy "
        f"{spread(entropies)} nats, KL {spread(kls)} "
        f"at radius {radius}",
    )


MOSTLY_BAD = World(
    questions=2, tokens=6, horizon=3, context="last", reward=lambda question, answer: float(sum(answer) % 6 == question)
)


def bapo_stale() -> Finding:
    """Samples eight steps old, a sixth of them right at first; the same bounds, fixed and moving."""
    fixed = GRPO.but({"name": "fixed", "objective.aggregate": "token-mean", "objective.low": 0.4})
    success: dict[str, list[float]] = {}
    entropy: dict[str, list[float]] = {}
    for recipe in (BAPO, fixed):
        for seed in SEEDS:
            bench = Bench(MOSTLY_BAD, recipe.but({"update.epochs": 4}), seed=seed, lr=0.1, steps=30)
            run_stale(bench, 30, lag=8, every=5)
            success.setdefault(recipe.name, []).append(bench.success())
            entropy.setdefault(recipe.name, []).append(mean(reading.entropy for reading in bench.readings))
    holds = min(success["bapo"]) > 0.4 and mean(success["bapo"]) > max(success["fixed"])
    return Finding(
        holds,
        f"success from 0.17 to {spread(success['bapo'])} against {spread(success['fixed'])} of a fixed clip; mean "
        f"entropy over the run {spread(entropy['bapo'])} against {spread(entropy['fixed'])}: "
        "not higher, as the paper has it",
    )


CHECKS: tuple[Check, ...] = (
    Check("gmpo", "at the old policy its gradient is GRPO's", gmpo_starts_as_grpo, "derived"),
    Check(
        "gmpo",
        "|A| times the geometric mean is at most |A| times the arithmetic mean of ratios",
        gmpo_below_arithmetic_mean,
        "arXiv 2507.20673, section 3",
    ),
    Check("gmpo", "one outlier of ratio R changes the objective by R^(1/T)", gmpo_outlier, "derived"),
    Check(
        "nft",
        "at ratio 1 with weight sqrt((1-q)/q) the coefficients are (R - mean)/std",
        nft_coefficients,
        "arXiv 2505.18116, section 4",
    ),
    Check(
        "nft",
        "strictly on-policy, with that weight, its gradient is GRPO's",
        nft_equals_grpo_on_policy,
        "arXiv 2505.18116, proposition",
    ),
    Check(
        "nft",
        "without the negative term it is rejection-sampling fine-tuning",
        nft_without_negatives,
        "arXiv 2505.18116",
    ),
    Check(
        "nft", "the implied negative policy sums to 1", nft_negative_policy_sums_to_one, "arXiv 2505.18116, equation 6"
    ),
    Check("disco", "as tau grows the loss tends to mean s(wrong) - mean s(right)", disco_limit, "arXiv 2505.12366"),
    Check("disco", "the penalty's gradient is beta max(0, KL - delta) grad KL", disco_penalty, "arXiv 2505.12366"),
    Check(
        "disco",
        "a question's weight does not depend on its success rate, GRPO's is sqrt(p(1-p))",
        disco_question_weight,
        "arXiv 2505.12366, proposition 1",
    ),
    Check("bapo", "started at its limits it is PPO with a fixed asymmetric clip", bapo_fixed_bounds, "derived"),
    Check("bapo", "on-policy the bounds do not change the gradient", bapo_on_policy, "derived"),
    Check(
        "bapo",
        "at the bounds found the positive share is at least rho_0, or both stand at their maxima",
        bapo_search,
        "arXiv 2510.18927, algorithm 1",
    ),
    Check(
        "bapo",
        "counted by gradient the share rises with the lower bound, counted as in the released code it falls",
        bapo_released_search_works_against_itself,
        "released code, recipe/bapo/policy_loss.py",
    ),
    Check(
        "nft",
        "off-policy it beats rejection fine-tuning and is no worse than GRPO",
        nft_off_policy,
        "arXiv 2505.18116, section 5",
        slow=True,
    ),
    Check(
        "disco",
        "on mostly hard questions it is more accurate than GRPO, its entropy does not collapse and its KL stays "
        "near delta",
        disco_hard_questions,
        "arXiv 2505.12366, section 5",
        slow=True,
    ),
    Check(
        "bapo",
        "on stale, mostly bad samples no run collapses and more is learnt than with a fixed clip; entropy is no higher",
        bapo_stale,
        "arXiv 2510.18927, section 5",
        slow=True,
    ),
    Check(
        "gmpo",
        "on stale samples the range of sequence ratios is smaller and fewer runs collapse than with GRPO",
        gmpo_stale,
        "arXiv 2507.20673, section 4",
        slow=True,
    ),
)

"""What nft claims."""

from __future__ import annotations

import math
from statistics import mean, variance

import torch

from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.stale import run_stale
from hocket.lab.toys.objectives import KEY, SEEDS, documents, spread, verdict_document
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.nft import NFT, implied_negative

claim = Claims("nft", "arXiv 2505.18116, section 4")


@claim("at ratio 1 with weight sqrt((1-q)/q) the coefficients are (R - mean)/std")
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


@claim("strictly on-policy, with that weight, its gradient is GRPO's", "arXiv 2505.18116, proposition")
def nft_equals_grpo_on_policy() -> Finding:
    """Gradients through both recipes on random on-policy batches."""
    grpo = GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0, "objective.aggregate": "token-mean"})
    nft = NFT.but({"objective.prompts": "deviation", "objective.aggregate": "token-mean"})
    worst = 0.0
    for document in documents(20, gap=0.0, samples=8):
        worst = max(worst, float((flat(look(nft, document)) - flat(look(grpo, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 20 on-policy batches: {worst:.1e}")


@claim("without the negative term it is rejection-sampling fine-tuning", "arXiv 2505.18116")
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


@claim("the implied negative policy sums to 1", "arXiv 2505.18116, equation 6")
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


SUMS = World(
    questions=2, tokens=5, horizon=2, context="last", reward=lambda question, answer: float(sum(answer) % 5 == question)
)


@claim("off-policy it beats rejection fine-tuning and is no worse than GRPO", "arXiv 2505.18116, section 5", slow=True)
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

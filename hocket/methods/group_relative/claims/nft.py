"""NFT's claims."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean, variance
from typing import Any

import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import SEEDS, batches, below, each, gap, gradient, runs, say
from hocket.lab.groups import recorded
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.toys.enumerable_groups import binary_groups
from hocket.lab.toys.quick_worlds import summing
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.nft import NFT, implied_negative

claim = Claims("nft", "arXiv 2505.18116, section 4")
BY_DEVIATION = NFT.but({"objective.prompts": "deviation"})


@claim("at ratio 1 with weight sqrt((1-q)/q) the coefficients are (R - mean)/std")
def at_ratio_1_with_weight_sqrt_q_the_coefficients_are_std() -> Finding:
    groups = torch.tensor(binary_groups(16)[1:16], dtype=torch.float64)
    own = -gradient(BY_DEVIATION.but({"objective.aggregate": "sequence-sum"}), recorded(groups.tolist()))
    q = groups.mean(1, keepdim=True)
    wanted = ((groups - q) / (q * (1 - q)).sqrt()).flatten()
    return below(1e-12, difference_at_success_rates_of_1_to_15_in_16=gap(own * 240, wanted))


@claim("loss, gradient and shares are the formula's, counted by hand, at the release's floor of 1")
def loss_gradient_and_shares_are_the_formulas_counted_by_hand_at() -> Finding:
    def verdicts(members: Sequence[CountedAnswer]) -> list[float]:
        right = [float(one.reward > mean(other.reward for other in members)) for one in members]
        return [one - mean(right) for one in right]

    def loss(answers: Sequence[CountedAnswer], floor: float = 1.0) -> Any:
        total, floored = torch.zeros((), dtype=torch.float64), []
        for one in answers:
            a, r = float(one.advantage[0]), (one.logp - one.old).exp()
            q = min(max(1 - a if a > 0 else -a, 0.02), 0.98)
            implied = (1 - q * r) / (1 - q)
            held = implied.detach().clamp(min=floor)
            wrong = -held.log() - implied / held + (implied / held).detach()
            total = total + (1 - q) * (-r.log() if a > 0 else wrong).sum() * (a != 0) / len(answers) / 128
            floored += [False] * len(r) * (a > 0) + (implied < floor).tolist() * (a < 0)
        return total, {"negative/floored": mean(floored), "ratio/saturated": 0}

    low = NFT.but({"objective.floor": 0.4})
    gaps = [off(NFT, rows, loss, verdicts) for rows in stale_rows("nft")]
    gaps += [off(low, rows, partial(loss, floor=0.4), verdicts) for rows in stale_rows("nft")]
    (rows,) = stale_rows("nft", count=1, groups=1, samples=60)
    for number, row in enumerate(rows):  # One wrong answer of 59: the rate is cut.
        row["scores"] = {"reward": float(number != 5)}
    gaps.append(off(NFT, rows, loss, verdicts))
    return below(1e-12, value_at(NFT, "update.minibatches") == 16, off_by_hand=max(gaps))


claim.reduces(
    "strictly on-policy, with that weight, its gradient is GRPO's",
    BY_DEVIATION.but({"objective.aggregate": "token-mean"}),
    GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0, "objective.aggregate": "token-mean"}),
    "objectives",
    source="arXiv 2505.18116, proposition",
    gap=0.0,
    samples=8,
)


@claim("without the negative term it is rejection-sampling fine-tuning", "arXiv 2505.18116")
def without_the_negative_term_it_is_rejection_sampling_fine_tuning() -> Finding:
    recipe = NFT.but({"objective.negatives": 0.0, "objective.prompts": "one", "objective.aggregate": "sequence-sum"})

    def off(document: Mapping[str, Any]) -> float:
        rows = document["trajectories"]
        rewards = {row["group"]: {r["scores"]["reward"] for r in rows if r["group"] == row["group"]} for row in rows}
        own = [-float(row["scores"]["reward"] == 1 and len(rewards[row["group"]]) > 1) / len(rows) for row in rows]
        slopes = [slope for row, slope in zip(rows, own, strict=True) for _ in row["logp"]]
        return gap(gradient(recipe, document), slopes)

    return below(1e-12, off_the_likelihood_gradient=max(map(off, batches(20, "objectives", gap=0.5))))


@claim("the implied negative policy sums to 1", "arXiv 2505.18116, equation 6")
def the_implied_negative_policy_sums_to_1() -> Finding:
    rng, errors = Key.of(0).derive("checks", "objectives", "negative policy").numpy(), []
    for _ in range(200):
        old, now = (torch.softmax(torch.from_numpy(rng.normal(size=12)) * 2, 0) for _ in range(2))
        rate = torch.tensor(float(rng.uniform(0.02, 0.98)), dtype=torch.float64)
        right = torch.from_numpy(rng.random(12) < 0.5)
        right[0], right[1] = True, False
        share = (old * right).sum()
        errors.append(abs(float((old * implied_negative(now / old, rate)).sum()) - 1))
        # Split the old policy by a true verdict: then the implied policy is that of wrong answers itself.
        errors.append(gap(old * implied_negative(old * right / share / old, share), old * ~right / (1 - share)))
    return below(1e-12, largest_error_of_sum_or_policy=max(errors))


@claim("off-policy it beats rejection fine-tuning and is no worse than GRPO", "arXiv 2505.18116, section 5", slow=True)
def off_policy_it_beats_rejection_fine_tuning_and_is_no_worse_than() -> Finding:
    nft = NFT.but({"update.minibatches": 1})  # As many updates as GRPO.
    rejection = nft.but({"name": "rejection", "objective.negatives": 0.0})
    made = runs(summing(2, 5, 2, context="last"), nft, rejection, GRPO, steps=40, lag=4, lr=0.1)
    success = each(made, lambda bench: mean(one.success for one in bench.readings))
    noise = 2 * math.sqrt((variance(success["nft"]) + variance(success["grpo"])) / len(SEEDS))
    kept = mean(success["nft"]) > mean(success["grpo"]) - noise
    holds = min(success["nft"]) > mean(success["rejection"]) and kept
    return Finding(holds, say(mean_success_over_40_steps=success))


claim.shipped(NFT, "objective")
claim.shipped(NFT, without={"objective.negatives": 0.0})

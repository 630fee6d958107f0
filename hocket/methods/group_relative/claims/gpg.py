"""GPG's claims."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gradient, runs, say
from hocket.lab.groups import gap, recorded
from hocket.lab.hand_formulas import CountedAnswer, centred, off, stale_rows
from hocket.lab.toys.enumerable_groups import bandit
from hocket.lab.toys.quick_worlds import guessing, mixed
from hocket.recipes import GPG, GRPO, find
from hocket.rollout.dynamic import DynamicSampling

claim = Claims("gpg", "arXiv:2504.02546")


@claim("On-policy it is token-mean, mean-centred GRPO without clip and KL; with F_norm = std, GRPO")
def on_policy_it_is_token_mean_mean_centred_grpo_without_clip_and() -> Finding:
    batch = recorded([[1.0, 0.0, 0.0], [0.2, 0.9, 0.4]], lengths=[[2, 5, 1], [3, 3, 8]])
    token_mean = GRPO.but({"objective.aggregate": "token-mean", "objective.low": 1.0})
    centred = gap(gradient(GPG, batch), gradient(token_mean.but({"credit.scale": None}), batch))
    scaled = gap(gradient(GPG.but({"credit.scale": "std"}), batch), gradient(token_mean, batch))
    return below(EXACT, mean_centred=centred, with_F_norm_std=scaled)


@claim("Advantages, loss and gradient are those counted by hand, on stale samples too")
def advantages_loss_and_gradient_are_those_counted_by_hand_on_stale() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> Any:
        return -torch.cat([one.logp * one.advantage for one in answers]).mean(), {}

    def scaled(members: Sequence[CountedAnswer], alpha: float) -> list[float]:
        return [alpha * a for a in centred(members)]

    by_hand = []
    for rows in stale_rows("gpg"):
        counted = [row for row in rows if any(row["trained"])]
        for row in counted:
            row["scores"] = {"reward": 1.0} if row["group"] == "group 1" else {"reward": row["scores"]["reward"]}
        earned = [{one["scores"]["reward"] for one in counted if one["group"] == row["group"]} for row in counted]
        alpha = len(counted) / sum(len(some) > 1 for some in earned)
        by_hand.append(off(GPG, rows, loss, partial(scaled, alpha=alpha)))
    rollout = GPG.rollout == DynamicSampling(samples=8, max_rounds=3, enough=0.6)
    return below(EXACT, rollout, off_by_hand=max(by_hand))


@claim(
    "With idle groups it is the gradient of the others alone if lengths are equal, and not if they differ",
    "arXiv:2504.02546; the second half derived here",
)
def with_idle_groups_it_is_the_gradient_of_the_others_alone_if() -> Finding:
    valid, idle = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]

    def apart(*lengths: int) -> float:
        sizes = [[length] * 3 for length in lengths]
        alone = gradient(GPG, recorded(valid, lengths=sizes[:2]))
        return gap(gradient(GPG, recorded(valid + idle, lengths=sizes))[: len(alone)], alone)

    equal, unequal = apart(4, 4, 4, 4), apart(4, 4, 9, 2)
    told = f"gradient against that of the valid groups alone: {say(equal_lengths=equal, unequal_lengths=unequal)}"
    return Finding(equal < EXACT and unequal > 0.01, told)


@claim("On a bandit alpha = 1 gives (G-1)/G of the true gradient; alpha keeps direction and enlarges", "derived here")
def on_a_bandit_alpha_1_gives_g_of_the_true_gradient_alpha_keeps() -> Finding:
    group, size = bandit(0.3, wrong=1), 3
    share, idle = group.true_gradient() * (size - 1) / size, 0.3**size + 0.7**size
    plain = gap(group.gradient(GPG.but({"credit.weigh": ()}), size), share)
    step = torch.zeros_like(group.policy.logits)
    for (first, left), (second, right) in product(group.samples(size), repeat=2):
        rows = [group.row(n, "0") for n in left] + [group.row(n, "1") for n in right]
        step += first * second * group.step(GPG, rows, (*left, *right))
    # Two groups of one prompt: 1 + P(the other has no signal) times the share of one.
    both = gap(step, share * (1 + idle))
    figures = below(EXACT, alpha_1_off_its_share=plain, two_groups_with_alpha_off_a_multiple=both)
    return Finding(figures.holds, f"{figures.saw}, {say(multiple=1 + idle)}")


@claim("On par with GRPO with less memory and time than GRPO with its KL term", slow=True)
def on_par_with_grpo_with_less_memory_and_time_than_grpo_with_its() -> Finding:
    made = runs(guessing(), find("grpo-kl"), GPG, GRPO, steps=80, every=10, start=mixed)
    success = each(made, Bench.success)
    times = {k: sorted(one["time/update"] for b in benches for one in b.history) for k, benches in made.items()}
    seconds = {name: ranked[len(ranked) // 4] for name, ranked in times.items()}
    sets = {name: 1 + (benches[0].learner.reference is not None) for name, benches in made.items()}
    holds = fmean(success["gpg"]) - fmean(success["grpo"]) > -0.02 and seconds["gpg"] < seconds["grpo-kl"]
    told = say(success=success, sets_of_weights=sets, ms_per_update={k: f"{1e3 * v:.1f}" for k, v in seconds.items()})
    return Finding(holds and sets["gpg"] == 1 and sets["grpo-kl"] == 2, told)


claim.spares("gpg: objective.horizon = 5120", "no length divides a mean over tokens")
claim.spares("1.0 -> 40.0", "without any signal all advantages are 0")

claim.shipped(GPG, "credit")
claim.shipped(GPG, without={"credit.weigh": ()})
claim.shipped(GPG, "rollout", task="calculator")

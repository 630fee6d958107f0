"""Group-relative REINFORCE's claims."""

import math
from statistics import mean
from typing import Any

import torch

from hocket.core.batch import Level
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gap, gradient, inspect_rows, runs, say
from hocket.lab.claims.pages import write
from hocket.lab.toys.enumerable_groups import documents
from hocket.lab.toys.quick_worlds import TANGLED
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative import group_relative_reinforce as rec
from hocket.methods.group_relative.kimi_k1_5 import KIMI_K1_5
from hocket.recipe import Recipe

claim = Claims("group-relative-reinforce", "arXiv 2509.24203, section 4")


@claim(
    "the gradient of mean (r - mean r - tau (l - l_old))^2 is 2 tau times that of REINFORCE plus (tau/2) mean "
    "(l - l_old)^2",
    "arXiv 2509.24203, section 2",
)
def the_gradient_of_mean_2_is_2_tau_times_that_of_reinforce_plus() -> Finding:
    gaps = []
    for number, tau in enumerate((0.05, 0.3, 1.0, 4.0)):
        recipe = rec.REC_OPMD.but({"regularisers.0.coefficient": tau / 2})
        for batch in documents(4, "off-policy", "square", number, groups=1, samples=6, graded=True):
            rows = batch["trajectories"]
            numbers = [(row["scores"]["reward"], sum(row["logp_proximal"]), sum(row["logp"])) for row in rows]
            reward, old, now = torch.tensor(numbers, dtype=torch.float64).T.requires_grad_()
            (slope,) = torch.autograd.grad((reward - reward.mean() - tau * (now - old)).square().mean(), now)
            gaps.append(gap(slope, [2 * tau * row[0] for row in inspect_rows(recipe, rows)["gradient"]]))
    return Finding(max(gaps) < 1e-10, f"largest difference over 16 batches, tau 0.05 to 4: {max(gaps):.1e}")


def same(left: Recipe, right: Recipe, name: str, **settings: Any) -> Finding:
    """Two recipes have equal gradients on random batches."""
    gaps = [gap(gradient(left, one), gradient(right, one)) for one in documents(10, "off-policy", name, **settings)]
    return below(EXACT, largest_difference_on_10_batches=max(gaps))


@claim("REINFORCE with the quadratic leash is Kimi's regression", "arXiv 2509.24203, section 3")
def reinforce_with_the_quadratic_leash_is_kimis_regression() -> Finding:
    opmd = rec.REC_OPMD.but({"regularisers.0.coefficient": 0.2})
    return same(KIMI_K1_5.but({"shaping": [], "objective.temperature": 0.4}), opmd, "kimi", graded=True)


@claim("one step at pi_old is group-relative REINFORCE, whoever generated the samples", "arXiv 2509.24203, section 2")
def one_step_at_pi_old_is_group_relative_reinforce_whoever() -> Finding:
    plain, gaps = rec.REC_REINFORCE.but({"objective.aggregate": "sequence-sum"}), []
    both = (documents(10, "off-policy", name, gap=0.0) for name in ("any", "other"))
    for batch, other in zip(*both, strict=True):
        pairs = zip(batch["trajectories"], other["trajectories"], strict=True)
        strangers = [(row, (drawn["logp"] * len(row["logp"]))[: len(row["logp"])]) for row, drawn in pairs]
        rows = [{**row, "logp_behaviour": logp, "logp_proximal": row["logp"]} for row, logp in strangers]
        strange = gradient(rec.REC_OPMD, {"version": 1, "trajectories": rows})
        gaps.append(gap(strange, gradient(plain, batch)))
    return below(EXACT, largest_difference_on_10_batches=max(gaps))


@claim("lowering the baseline by d adds a d-weighted likelihood term", "arXiv 2506.20520")
def lowering_the_baseline_by_d_adds_a_d_weighted_likelihood_term() -> Finding:
    gaps = []
    for batch in documents(10, "off-policy", "shift", graded=True):
        plain = gradient(rec.REC_REINFORCE, batch)
        for shift in (0.05, 0.5):
            # The likelihood term -shift * mean over decisions of log pi has this slope everywhere.
            moved = gradient(rec.REC_ASYMRE.but({"correction.shift": shift}), batch)
            gaps.append(gap(moved, plain - shift / len(plain)))
    return below(EXACT, largest_difference_on_20_cases=max(gaps))


@claim("mask and ratio together are PPO's clipped surrogate", "arXiv 2509.24203, section 3")
def mask_and_ratio_together_are_ppos_clipped_surrogate() -> Finding:
    ppo = GRPO.but({"credit.scale": None, "objective.aggregate": "token-mean"})
    return same(rec.REC_ONE_SIDE_IS, ppo, "mask", gap=0.5)


RATIOS = (0.39, 0.41, 0.79, 0.81, 1.0, 1.19, 1.21, 2.99, 3.01)


def kept(recipe: Recipe, *, right: bool) -> list[float]:
    """At which of `RATIOS` the tokens of a right (or wrong) answer have a gradient; the other answer has not moved."""
    logs = torch.tensor(RATIOS, dtype=torch.float64).log().tolist()
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": logp, "logp_behaviour": [0.0] * len(RATIOS)}
        for reward, logp in ((float(right), logs), (float(not right), [0.0] * len(RATIOS)))
    ]
    found = gradient(recipe, {"version": 1, "trajectories": rows})[: len(RATIOS)]
    return [ratio for ratio, slope in zip(RATIOS, found.tolist(), strict=True) if slope]


@claim(
    "the ring keeps both sides within 0.2, and what comes back from below 0.4 or above 3", "arXiv 2509.24203, eq. 12"
)
def the_ring_keeps_both_sides_within_0_2_and_what_comes_back_from() -> Finding:
    near = [0.81, 1.0, 1.19]
    ours = [kept(rec.REC_RING, right=right) for right in (True, False)]
    two = [kept(rec.REC_RING.but({"objective.sides": "two"}), right=right) for right in (True, False)]
    return Finding(
        ours == [[0.39, *near], [*near, 3.01]] and two == [near, near], say(right=str(ours[0]), wrong=str(ours[1]))
    )


@claim("one side of whole answers keeps or drops them as GSPO's clip does, weighted by their mean ratio", "Trinity-RFT")
def one_side_of_whole_answers_keeps_or_drops_them_as_gspos_clip() -> Finding:
    wide = GRPO.but({"credit.scale": None, "objective.ratio": "sequence-token", "objective.aggregate": "token-mean"})
    return same(rec.REC_ONE_SIDE_SEQUENCE, wide, "whole answers", gap=0.5)


@claim("dropping leaves no more negatives than positives and centres again")
def dropping_leaves_no_more_negatives_than_positives_and_centres() -> Finding:
    sums, surplus = [], []
    for batch in documents(10, "off-policy", "drop", samples=8):
        rows, seen = batch["trajectories"], inspect_rows(rec.REC_DROP, batch["trajectories"])
        for group in {row["group"] for row in rows}:
            kept = [n for n, row in enumerate(rows) if row["group"] == group and seen["kept"][n]]
            credit = [seen["advantages"][n][0] for n in kept]
            sums.append(abs(sum(credit)))
            surplus.append(sum(value < 0 for value in credit) - sum(value > 0 for value in credit))
    figures = f"sum of kept advantages {max(sums):.0e}; surplus of negatives {max(0, *surplus)}"
    return Finding(max(sums) < EXACT and max(surplus) <= 0, figures)


@claim(
    "as shipped the forms' gradients are those counted by hand: shift 0.1, exp(A) cut at A = 50, tau/2 = 0.05",
    "derived",
)
def as_shipped_the_forms_gradients_are_those_counted_by_hand_shift() -> Finding:
    off = 0.0
    for number, batch in enumerate(documents(12, "off-policy", "by hand", graded=True)):
        rows = batch["trajectories"]
        for row in rows:
            row["scores"]["reward"] *= 200.0 if number % 4 == 3 else 2.0
        decisions = sum(len(row["logp"]) for row in rows)
        wanted: dict[str, list[float]] = {"rec-asymre": [], "rec-weight": [], "cooler": [], "rec-opmd": []}
        for row in rows:
            a = row["scores"]["reward"] - mean(o["scores"]["reward"] for o in rows if o["group"] == row["group"])
            moved, times = sum(row["logp"]) - sum(row["logp_proximal"]), len(row["logp"])
            wanted["rec-asymre"] += [-(a + 0.1) / decisions] * times
            wanted["rec-weight"] += [-a * math.exp(max(-50.0, min(50.0, a))) / decisions] * times
            wanted["cooler"] += [-a * math.exp(max(-50.0, min(50.0, 2 * a))) / decisions] * times
            wanted["rec-opmd"] += [(-a + 2 * 0.05 * moved) / len(rows)] * times
        recipes = (rec.REC_ASYMRE, rec.REC_WEIGHT, rec.REC_WEIGHT.but({"correction.temperature": 0.5}), rec.REC_OPMD)
        for recipe, slopes in zip(recipes, wanted.values(), strict=True):
            off = max(off, gap(gradient(recipe, batch), slopes) / max(map(abs, slopes)))
    return below(EXACT, largest_relative_difference=off)


@claim("one side keeps what PPO's clip keeps; the share cut is of decisions that count and have an advantage")
def one_side_keeps_what_ppos_clip_keeps_the_share_cut_is_of() -> Finding:
    sides = [kept(rec.REC_ONE_SIDE, right=right) for right in (True, False)]
    by_hand = [[r for r in RATIOS if r <= 1.2], [r for r in RATIOS if r >= 0.8]]
    logs = [math.log(ratio) for ratio in (1.3, 1.0, 1.3, 0.5)]
    rows = [
        {"group": g, "scores": {"reward": reward}, "logp": logs, "logp_behaviour": [0.0] * 4, "trained": trained}
        for g, reward, trained in (("q", 1.0, [1, 1, 0, 1]), ("q", 0.0, [1, 1, 1, 1]), ("alike", 1.0, [1] * 4))
    ]
    # Of the right answer's three 1.3 is cut, of the wrong one's four 0.5; the third is compared with nobody.
    share = inspect_rows(rec.REC_ONE_SIDE, rows)["metrics"]["ratio/clipped"]
    forms: list[Any] = [rec.REC_ONE_SIDE, rec.REC_ONE_SIDE_SEQUENCE]
    levels = [(one.objective.couples, one.objective.idle_without_advantage) for one in forms]
    ratios = torch.tensor(RATIOS, dtype=torch.float64)
    ring = [rec.within(ratios, sign * torch.ones_like(ratios), 0.2, 0.2, "ring") for sign in (1, -1)]
    comes_back = [ratios[one].tolist() for one in ring] == [[0.39, 0.81, 1.0, 1.19], [0.81, 1.0, 1.19, 3.01]]
    holds = sides == by_hand and comes_back and levels == [(Level.DECISION, True), (Level.TRAJECTORY, False)]
    return Finding(holds and abs(share - 2 / 7) < EXACT, say(right=str(sides[0]), wrong=str(sides[1]), cut=share))


@claim("as many negatives stay as there are positives, or `ratio` times as many rounded down, the first of them")
def as_many_negatives_stay_as_there_are_positives_or_ratio_times_as() -> Finding:
    rewards, seen = (0.0, 1.0, 0.1, 0.2, 0.9, 0.3), {}
    rows = [{"group": "q", "scores": {"reward": reward}, "logp": [-1.0]} for reward in rewards]
    wanted = {0.0: (1, 4), 0.5: (0, 1, 4), 1.0: (0, 1, 2, 4), 1.5: (0, 1, 2, 3, 4), 2.0: range(6)}
    for ratio in wanted:
        seen[ratio] = inspect_rows(rec.REC_DROP.but({"shaping.0.ratio": ratio}), rows)
    stay = all([n for n in range(6) if seen[ratio]["kept"][n]] == list(kept) for ratio, kept in wanted.items())
    shipped = inspect_rows(rec.REC_DROP, rows)
    off = gap([shipped["advantages"][n][0] for n in (0, 1, 2, 4)], [-0.5, 0.5, -0.4, 0.4])
    return below(EXACT, stay, shipped == seen[1.0], advantages_off=off)


claim.spares("rec-reinforce: objective.low = 0.0", "without sides nothing is bounded")
claim.spares("rec-reinforce: objective.high = 8.0", "without sides nothing is bounded")
claim.spares("rec-reinforce: objective.high = 0.0", "without sides nothing is bounded")
claim.spares("rec-reinforce: objective.horizon = 5120", "no length divides a mean over tokens")
claim.spares("rec-opmd: regularisers.0.horizon = 5120", "no length divides a term of whole answers")

ASYMRE, OPMD = rec.REC_ASYMRE.but({"correction.shift": 0.3}), rec.REC_OPMD.but({"regularisers.0.coefficient": 0.25})
BOUNDED = (rec.REC_ONE_SIDE, rec.REC_ONE_SIDE_IS, OPMD, ASYMRE)


def final(*recipes: Recipe, lag: int, lr: float, steps: int) -> dict[str, list[float]]:
    """The mean success of the last three readings, by recipe and seed."""
    benches = runs(TANGLED, *(one.but({"rollout.samples": 16}) for one in recipes), steps=steps, lag=lag, lr=lr)
    return each(benches, lambda bench: mean(reading.success for reading in bench.readings[-3:]))


@claim("on another policy's samples plain REINFORCE collapses and each regularised form does not", slow=True)
def on_another_policys_samples_plain_reinforce_collapses_and_each() -> Finding:
    plain, *bounded = (success := final(rec.REC_REINFORCE, *BOUNDED, lag=50, lr=0.2, steps=50)).values()
    holds = max(plain) < 0.1 and all(min(one) > 4 / 9 - 0.1 for one in bounded)
    return Finding(holds, f"all samples of the policy at the start, {say(its_success=4 / 9, success=success)}")


@claim(
    "on another policy's samples exponential weights prevent the collapse and dropping surplus negatives "
    "alone does not",
    "derived here",
    slow=True,
)
def on_another_policys_samples_exponential_weights_prevent_the() -> Finding:
    weight = rec.REC_WEIGHT.but({"correction.temperature": 0.5})
    success = final(rec.REC_DROP, weight, lag=50, lr=0.2, steps=50)
    holds = min(success["rec-weight"]) > 0.35 and max(success["rec-drop"]) < 0.1
    return Finding(holds, f"all samples of the policy at the start, {say(success=success)}")


@claim("on samples 16 steps stale plain REINFORCE collapses and each regularised form does not", slow=True)
def on_samples_16_steps_stale_plain_reinforce_collapses_and_each() -> Finding:
    plain, *bounded = (success := final(rec.REC_REINFORCE, *BOUNDED, lag=16, lr=0.6, steps=60)).values()
    collapsed = sum(value < 0.1 for value in plain)
    holds = collapsed >= 2 and all(min(one) > 0.34 for one in bounded)
    return Finding(holds, say(steps_stale=16, runs_of_REINFORCE_that_collapsed=collapsed, success=success))


@claim("at small steps, removing only the importance ratio while keeping the clip's mask changes little", slow=True)
def at_small_steps_removing_only_the_importance_ratio_while_keeping() -> Finding:
    success = final(rec.REC_ONE_SIDE, rec.REC_ONE_SIDE_IS, lag=16, lr=0.2, steps=60)
    apart = gap(*map(mean, success.values()))
    return Finding(apart < 0.1, say(steps_stale=16, success=success, difference_of_means=apart))


PAGE = """# Group-relative REINFORCE is off-policy

*Made by `python -m hocket.methods.group_relative.claims.group_relative_reinforce`;
`hocket recipes --check group-relative-reinforce` runs the checks.*

Maximise E[r] - tau KL(pi || pi_old). At the optimum r(y) - tau log(pi/pi_old)(y) is the same for every answer y. Ask
this of any K samples, whoever drew them: the squared deviation from their mean is least where all pairs agree. One
gradient step on it at pi_old, where the logarithm is 0, is

    -(1/K) sum_i (r_i - mean r) grad log pi(y_i)

which is group-relative REINFORCE. No assumption on the sampler was made, so neither a ratio nor fresh samples are
needed for this one step (arXiv:2509.24203). What many steps on the same or old samples need is something that keeps the
policy near pi_old, or data that cannot mislead it.

| recipe | lever | what is added to -(r_i - mean r) log pi |
|---|---|---|
| `rec-reinforce` | none | nothing |
| `rec-one-side` | the update | a mask: no gradient where the ratio has left PPO's side of [0.8, 1.2]; no ratio |
| `rec-one-side-is` | the update | that mask and the ratio: PPO's gradient |
| `rec-opmd` | the update | tau/2 (log pi(y)/pi_old(y))^2: Kimi k1.5's regression |
| `rec-asymre` | the update | a baseline lowered by d, which is -d log pi: some imitation of every sample |
| `rec-drop` | the data | surplus negatives dropped, the rest centred again |
| `rec-weight` | the data | weights exp(A/temp) |

    hocket recipes --compare rec-opmd rec-reinforce
    hocket study --recipes rec-reinforce,rec-one-side,rec-opmd,rec-asymre --task sums

## When plain REINFORCE collapses, and why

In the laboratory two tokens are chosen, each without knowledge of the other. Token 0 is the better choice at either
place, but not at both. On samples that do not follow the policy, E_old[A 1[a_t = v]] is a constant: each place's logits
rise linearly towards token 0, and nothing ever says stop. The policy ends at (0, 0), which is always wrong; its groups
are all of one reward and it never returns. A mask stops each place once its ratio has moved by a fifth. The quadratic
term, the lowered baseline and exponential weights all make the loss bounded below: with A_v + d > 0 for every token v,
for one, it is a weighted likelihood whose optimum is interior. Dropping surplus negatives leaves it unbounded, so it
does not prevent this collapse.

Two published observations hold only in part here. With samples 16 steps old plain REINFORCE collapses at large steps;
at small ones, where feedback still comes in time, it was as good as the others or better. And the ratio can be removed
at little cost at small steps; at the larger ones below, mask and ratio together reach more than the mask alone.

## What the checks saw

{figures}
"""


if __name__ == "__main__":
    write("group-relative-reinforce", PAGE, claim)


claim.shipped(rec.REC_REINFORCE, "objective")
claim.shipped(rec.REC_ASYMRE, "correction")
claim.shipped(rec.REC_DROP, "shaping")
claim.shipped(rec.REC_WEIGHT, "correction")
claim.shipped(rec.REC_REINFORCE, "credit")

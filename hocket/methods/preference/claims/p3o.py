"""P3O's claims."""

import math
from typing import Any

import torch

from hocket.core.components import value_at
from hocket.lab.bandit import Bandit
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import batches, below, gap, gradient, inspect_rows, same_gradient, say
from hocket.methods.base.rloo import RLOO
from hocket.methods.preference.p3o import P3O

claim = Claims("p3o", "arXiv:2310.00212")
BARE = P3O.but({"shaping": ()})
OPEN: dict[str, Any] = {"objective.low": None, "objective.high": None}


@claim("At the policy that sampled it is RLOO of two samples, and of more.")
def at_the_policy_that_sampled_it_is_rloo_of_two_samples_and_of() -> Finding:
    two, four = (same_gradient(BARE, RLOO, 20, "on policy", samples=k, gap=0.0, graded=True) for k in (2, 4))
    return Finding(two.holds and four.holds, f"two: {two.saw}; four: {four.saw}")


@claim("What is added to every reward of a prompt changes nothing.")
def what_is_added_to_every_reward_of_a_prompt_changes_nothing() -> Finding:
    gaps = []
    for batch in batches(20, "shift", samples=2, graded=True):
        moved = {**batch, "trajectories": [dict(row) for row in batch["trajectories"]]}
        for row in moved["trajectories"]:
            row["scores"] = {"reward": row["scores"]["reward"] + 3.0 * (1 + int(row["id"][0]))}
        gaps.append(gap(gradient(BARE, batch), gradient(BARE, moved)))
    return below(1e-12, off=max(gaps))


def drifts(batch: dict[str, Any]) -> list[float]:
    """Each answer's log-ratio to the proximal policy."""
    return [sum(row["logp"]) - sum(row["logp_proximal"]) for row in batch["trajectories"]]


@claim("Off the policy a pair weighs w_1 w_2; each clip removes what it says.")
def off_the_policy_a_pair_weighs_w_1_w_2_each_clip_removes_what_it() -> Finding:
    """Two samples a prompt: the gradient of an answer is one number for all its decisions."""
    gaps, cuts = [], {"separate": 0, "joint": 0}
    for batch in batches(20, "off", samples=2, graded=True, gap=0.3):
        rows, drift = batch["trajectories"], drifts(batch)
        ratio = [float(torch.tensor(one, dtype=torch.float64).exp()) for one in drift]
        for clip in ("open", "separate", "joint"):
            wanted: list[float] = []
            for a in range(0, len(rows), 2):
                better = rows[a]["scores"]["reward"] - rows[a + 1]["scores"]["reward"]
                whole = ratio[a] * ratio[a + 1]
                for place, sign in ((a, 1.0), (a + 1, -1.0)):
                    judged, towards = (ratio[place], sign * better) if clip == "separate" else (whole, better)
                    cut = clip != "open" and ((towards > 0 and judged > 1.2) or (towards < 0 and judged < 0.8))
                    cuts[clip] = cuts.get(clip, 0) + cut
                    each = 0.0 if cut else -sign * better * whole / 2 / (len(rows) / 2)
                    wanted += [each] * len(rows[place]["logp"])
            recipe = BARE.but(OPEN if clip == "open" else {"objective.clip": clip})
            gaps.append(gap(gradient(recipe, batch), wanted))
    return below(1e-10, min(cuts["separate"], cuts["joint"]) > 0, off=max(gaps))


@claim(
    "On a softmax over answers the pairs' gradient averages to the policy gradient, also from older samples.", "derived"
)
def on_a_softmax_over_answers_the_pairs_gradient_averages_to_the() -> Finding:
    rewards, gaps = (0.3, 1.0, -0.5), []
    reward = torch.tensor(rewards, dtype=torch.float64)
    now = torch.log_softmax(torch.tensor([0.2, -0.1, 0.5], dtype=torch.float64), 0)
    for old in (now, torch.log_softmax(torch.tensor([1.0, 0.0, -0.4], dtype=torch.float64), 0)):
        total = torch.zeros(3, dtype=torch.float64)
        for i in range(3):
            for j in range(3):
                copies = [(i == k) + (j == k) for k in range(3)]
                bandit = Bandit(rewards, old, old, copies)
                logits, recipe = now.clone().requires_grad_(), BARE.but(OPEN)
                (slope,) = torch.autograd.grad(bandit.loss(recipe, logits, bandit.batch(recipe)), logits)
                total -= (old[i] + old[j]).exp() * slope
        policy = now.exp()
        gaps.append(gap(total, policy * (reward - policy @ reward)))
    return Finding(max(gaps) < 1e-12, say(on_policy=gaps[0], older=gaps[1]))


@claim("Answers no further apart than the margin are no pair; with margin 0 all are, ties included.", "derived")
def answers_no_further_apart_than_the_margin_are_no_pair_with() -> Finding:
    """At the policy that sampled, where a pair moves its answers by half their difference over the number of pairs."""
    gaps, left_out = [], 0
    for margin, graded in ((0.0, False), (0.0, True), (0.4, True)):
        for batch in batches(10, "margin", graded=graded, gap=0.0):
            rows = batch["trajectories"]
            every = [(a, b) for b, one in enumerate(rows) for a in range(b) if rows[a]["group"] == one["group"]]
            apart = {(a, b): rows[a]["scores"]["reward"] - rows[b]["scores"]["reward"] for a, b in every}
            found = {pair: better for pair, better in apart.items() if margin == 0 or abs(better) > margin}
            left_out += len(every) - len(found)
            pull = [0.0] * len(rows)
            for (a, b), better in found.items():
                pull[a] -= better / 2 / len(found)
                pull[b] += better / 2 / len(found)
            wanted = [one for row, one in zip(rows, pull, strict=True) for _ in row["logp"]]
            gaps.append(gap(gradient(BARE.but({"credit.margin": margin}), batch), wanted))
    return below(1e-12, left_out > 0, off=max(gaps))


@claim("Each answer's ratio may be clipped on one side alone.", "derived")
def each_answers_ratio_may_be_clipped_on_one_side_alone() -> Finding:
    """One pair of single decisions, their ratios 2 and 1/2: both clips are in effect where the first is the better."""
    gaps = []
    for better in (1.0, -1.0):
        for low, high in ((0.2, None), (None, 0.2), (0.2, 0.2)):
            rows = [
                {"group": "question", "scores": {"reward": reward}, "logp": [now], "logp_behaviour": [-1.0]}
                for reward, now in ((better, -1.0 + math.log(2)), (0.0, -1.0 - math.log(2)))
            ]
            pulls = (0.0 if high and better > 0 else -better / 2, 0.0 if low and better > 0 else better / 2)
            found = inspect_rows(BARE.but({"objective.low": low, "objective.high": high}), rows)["gradient"]
            gaps.append(gap([one[0] for one in found], list(pulls)))
    return below(1e-12, off=max(gaps))


@claim("As shipped two answers a prompt, four passes, and rewards less 0.05 of their log-ratio to the reference.")
def as_shipped_two_answers_a_prompt_four_passes_and_rewards_less_0() -> Finding:
    gaps = []
    for batch in batches(20, "charged", samples=2, graded=True, gap=0.3):
        rows, wanted = [dict(row) for row in batch["trajectories"]], list[float]()
        for row in rows:
            row["logp"] = list(row["logp_proximal"])
        paid = [row["scores"]["reward"] - 0.05 * (sum(row["logp"]) - sum(row["logp_ref"])) for row in rows]
        for place, row in enumerate(rows):
            wanted += [-(paid[place] - paid[place ^ 1]) / len(rows)] * len(row["logp"])
        gaps.append(gap(gradient(P3O, {**batch, "trajectories": rows}), wanted))
    settings = [value_at(P3O, name) for name in ("rollout.samples", "update.epochs")]
    return below(1e-10, settings == [2, 4], off=max(gaps))


claim.spares("1.0 -> 40.0", "no ratio is below 0, so either leaves that side open")

claim.shipped(P3O, settings={"curriculum.prompts": 8, "update.lr": 1e-4})

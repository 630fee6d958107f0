"""DisCO's claims."""

import itertools
import math
from statistics import mean, variance

import torch

from hocket.core.columns import Column
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import (
    SEEDS,
    Claims,
    Finding,
    batches,
    each,
    gap,
    gradient,
    inspect_rows,
    runs,
    say,
)
from hocket.lab.groups import recorded
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.lab.toys.enumerable_groups import binary_groups
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.disco import DISCO, HingeTrustRegion, discrimination
from hocket.types import Evaluation

claim = Claims("disco", "arXiv 2505.12366")


@claim("as tau grows the loss tends to mean s(wrong) - mean s(right)")
def as_tau_grows_the_loss_tends_to_mean_s_mean_s() -> Finding:
    score = torch.from_numpy(-Key.of(0).derive("checks", "objectives", "disco limit").numpy().exponential(size=24))
    right, group = torch.arange(24) % 3 == 0, torch.arange(24) // 6
    plain = discrimination(score, right, ~right, group, 4, None)
    apart = [score[(group == g) & ~right].mean() - score[(group == g) & right].mean() for g in range(4)]
    off = [gap(discrimination(score, right, ~right, group, 4, tau), plain) for tau in (10.0, 100.0, 1e3, 1e4)]
    tenfold = all(0.08 < after / before < 0.12 for before, after in itertools.pairwise(off))
    figures = say(**{f"tau {10**n}": one for n, one in enumerate(off, start=1)})
    return Finding(tenfold and gap(plain, torch.stack(apart)) < 1e-14, f"distance from the plain means: {figures}")


@claim("as shipped, a question's wrong answers are lowered by their soft-max at tau = 10, the right ones alike")
def as_shipped_a_questions_wrong_answers_are_lowered_by_their_soft() -> Finding:
    scores, right = (-0.2, -9.0, -25.0, -1.0, -3.0), (0, 0, 0, 1, 1)
    rows = [
        {"group": "q", "scores": {"reward": float(one)}, "logp": [score, score]}
        for score, one in zip(scores, right, strict=True)
    ]
    found = [sum(row) for row in inspect_rows(DISCO.but({"regularisers": ()}), rows)["gradient"]]
    shares = [math.exp(score / 10) for score in scores[:3]]
    wanted = [*(share / sum(shares) for share in shares), -0.5, -0.5]
    off, plain = gap(found, wanted), gap(found[:3], [1 / 3] * 3)
    return Finding(off < 1e-12 and plain > 0.1, say(off_the_soft_max=off, off_a_plain_mean=plain))


@claim("the penalty's gradient is beta max(0, KL - delta) grad KL")
def the_penaltys_gradient_is_beta_max_grad_kl() -> Finding:
    off, active = 0.0, 0
    for number, document in enumerate(batches(30, "objectives", gap=0.15)):
        radius, read = (0.0, 0.005, 0.02)[number % 3], RecordedBatch(document)
        leaf = read.logp.clone().requires_grad_()
        loss = HingeTrustRegion(radius=radius, coefficient=7.0)(Evaluation(leaf), read.batch).total()
        (own,) = torch.autograd.grad(loss, leaf)
        change = leaf - read.batch.logp["proximal"].values
        divergence = (change.exp() - 1 - change).mean()
        (slope,) = torch.autograd.grad(divergence, leaf)
        excess = max(0.0, float(divergence.detach()) - radius)
        active += excess > 0
        off = max(off, gap(own, 7.0 * excess * slope))
    return Finding(off < 1e-12 and 0 < active < 30, say(batches=30, outside_the_ball=active, largest_difference=off))


@claim(
    "a question's weight does not depend on its success rate, GRPO's is sqrt(p(1-p))", "arXiv 2505.12366, proposition 1"
)
def a_questions_weight_does_not_depend_on_its_success_rate_grpos_is() -> Finding:
    document, soft = recorded(binary_groups(16)[1:16], logp=[-1.0]), DISCO.but({"regularisers": ()})
    recipes = (GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0}), soft.but({"objective.temperature": None}), soft)
    tables = [gradient(recipe, document).reshape(15, 16) for recipe in recipes]
    # How much a question's right answers are raised in all.
    grpo, *disco = ([-15 * float(row[:rate].sum()) for rate, row in enumerate(table, start=1)] for table in tables)
    wanted = [math.sqrt(rate / 16 * (1 - rate / 16)) for rate in range(1, 16)]
    off, flatness = gap(grpo, wanted), gap(disco, [[1.0] * 15] * 2)
    figures = say(GRPOs_weight_off_the_root=off, at_1_of_16=wanted[0], at_the_half=max(wanted), DisCOs_off_1=flatness)
    return Finding(off < 1e-12 and flatness < 1e-12, figures)


@claim(
    "on mostly hard questions it is more accurate than GRPO, its entropy does not collapse and its KL stays near delta",
    "arXiv 2505.12366, section 5",
    slow=True,
)
def on_mostly_hard_questions_it_is_more_accurate_than_grpo_its() -> Finding:
    # One question in six is easy.
    hard = World(6, 6, 2, lambda q, a: float(a[0] < 4 if q == 0 else a == (q - 1, q)), context="last")
    radius, epochs = 2e-3, {"update.epochs": 4}
    made = runs(hard, GRPO.but(epochs), DISCO.but({**epochs, "regularisers.0.radius": radius}), steps=40, every=40)
    success, entropy = each(made, Bench.success), each(made, Bench.entropy)["disco"]
    kls = [mean(one["kl/trust"] for one in bench.history if "kl/trust" in one) for bench in made["disco"]]
    error = math.sqrt(sum(map(variance, success.values())) / len(SEEDS))
    ahead = mean(success["disco"]) - mean(success["grpo"])
    holds = ahead > 3 * error and min(entropy) > 0.1 and max(kls) < 2 * radius
    figures = say(success_after_40_steps=success, entropy_of_DisCO_in_nats=entropy, mean_KL=mean(kls), radius=radius)
    return Finding(holds, f"{figures}, KL from {min(kls):.4f} to {max(kls):.4f}")


@claim(
    "loss and score gap are those counted by hand, for both scores; an answer at its group's mean is wrong, the ball "
    "has radius 1e-4 and its spring 1e3, and a batch is learnt from twice",
    "released scripts; the number of updates is our own",
)
def loss_and_score_gap_are_those_counted_by_hand_for_both_scores_an() -> Finding:
    off = 0.0
    for document in batches(20, "disco by hand", gap=0.15):
        rows, gains = document["trajectories"], {"logp": 0.0, "ratio": 0.0}
        moves = [[new - old for new, old in zip(row["logp"], row["logp_proximal"], strict=True)] for row in rows]
        rewards = ([0.0, 0.5, 1.0, 0.5], [0.2, 0.2, 0.6, 0.2], [0.0] * 4)  # The third question tells nothing apart.
        for group, paid in enumerate(rewards):
            members = range(4 * group, 4 * group + 4)
            for place, reward in zip(members, paid, strict=True):
                rows[place]["scores"] = {"reward": reward}
            scores = {
                "logp": [mean(rows[place]["logp"]) for place in members],
                "ratio": [mean(map(math.exp, moves[place])) for place in members],
            }
            for name, (one, other, right, last) in scores.items() if max(paid) else ():
                tau = 10.0 if name == "logp" else 1.0
                soft = tau * math.log(mean(math.exp(wrong / tau) for wrong in (one, other, last)))
                gains[name] += (right - soft) / 3
        apart = mean(math.exp(move) - 1 - move for own in moves for move in own)
        spring = 1e3 / 2 * max(0.0, apart - 1e-4) ** 2
        for recipe in (DISCO, DISCO.but({"objective.score": "ratio", "objective.temperature": 1.0})):
            seen, gain = inspect(recipe, document), gains["logp" if recipe is DISCO else "ratio"]
            off = max(off, gap(seen["loss"], spring - gain), gap(seen["metrics"]["scores/gap"], gain))
    free = DISCO.but({"regularisers": ()})
    asks = [Column.BEHAVIOUR in free.but({"objective.score": score}).reads for score in ("logp", "ratio")]
    holds = off < 1e-12 and asks == [False, True] and value_at(DISCO, "update.epochs") == 2
    return Finding(holds, say(largest_difference=off, a_score_asks_for_the_old_policy=str(asks)))


claim.shipped(DISCO, "credit", "objective", "regularisers", steps=2)

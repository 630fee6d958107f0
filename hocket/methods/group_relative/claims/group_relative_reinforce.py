"""What group-relative-reinforce claims."""

from __future__ import annotations

from statistics import mean

import torch

from hocket.core.keys import Key
from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.pages import write
from hocket.lab.documents import random_document
from hocket.lab.microscope import look
from hocket.lab.stale import run_stale
from hocket.lab.toys.off_policy import TANGLED
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.group_relative_reinforce import (
    REC_ASYMRE,
    REC_DROP,
    REC_ONE_SIDE,
    REC_ONE_SIDE_IS,
    REC_OPMD,
    REC_REINFORCE,
    REC_WEIGHT,
)
from hocket.methods.group_relative.kimi_k1_5 import KIMI_K1_5
from hocket.recipe import Recipe

claim = Claims("group-relative-reinforce", "arXiv 2509.24203, section 4")


KEY = Key.of(0).derive("checks", "off-policy")


@claim(
    "the gradient of mean (r - mean r - tau (l - l_old))^2 is 2 tau times that of REINFORCE plus (tau/2) mean "
    "(l - l_old)^2",
    "arXiv 2509.24203, section 2",
)
def squared_consistency() -> Finding:
    """mean (r_i - mean r - tau (l_i - l_old,i))^2 by autograd, against 2 tau times the gradient of rec-opmd."""
    worst = 0.0
    for number, tau in enumerate((0.05, 0.3, 1.0, 4.0)):
        for trial in range(4):
            document = random_document(KEY.derive("square", number, trial), groups=1, samples=6, graded=True)
            rows = document["trajectories"]
            reward = torch.tensor([row["scores"]["reward"] for row in rows], dtype=torch.float64)
            old = torch.tensor([sum(row["logp_proximal"]) for row in rows], dtype=torch.float64)
            now = torch.tensor([sum(row["logp"]) for row in rows], dtype=torch.float64, requires_grad=True)
            (wanted,) = torch.autograd.grad((reward - reward.mean() - tau * (now - old)).square().mean(), now)
            recipe = REC_OPMD.but({"regularisers.0.coefficient": tau / 2})
            found = torch.tensor([row[0] for row in look(recipe, document)["gradient"]], dtype=torch.float64)
            worst = max(worst, float((wanted - 2 * tau * found).abs().max()))
    return Finding(worst < 1e-10, f"largest difference over 16 batches, tau 0.05 to 4: {worst:.1e}")


@claim("REINFORCE with the quadratic leash is Kimi's regression", "arXiv 2509.24203, section 3")
def opmd_is_kimi() -> Finding:
    """Gradients through both recipes at equal tau."""
    kimi = KIMI_K1_5.but({"shaping": [], "objective.temperature": 0.4})
    opmd = REC_OPMD.but({"regularisers.0.coefficient": 0.2})
    worst = 0.0
    for number in range(10):
        document = random_document(KEY.derive("kimi", number), graded=True)
        worst = max(worst, float((flat(look(kimi, document)) - flat(look(opmd, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 10 batches: {worst:.1e}")


@claim("one step at pi_old is group-relative REINFORCE, whoever generated the samples", "arXiv 2509.24203, section 2")
def one_step_whoever_sampled() -> Finding:
    """At pi_old the fit's gradient is REINFORCE's on any samples: the recorded sampler changes nothing."""
    plain, worst = REC_REINFORCE.but({"objective.aggregate": "sequence-sum"}), 0.0
    for number in range(10):
        document = random_document(KEY.derive("any", number), gap=0.0)
        other = random_document(KEY.derive("other", number), gap=0.0)
        rows = []
        for row, drawn in zip(document["trajectories"], other["trajectories"], strict=True):
            proximal = row["logp"]
            stranger = (drawn["logp"] * len(proximal))[: len(proximal)]
            rows.append({**row, "logp_behaviour": stranger, "logp_proximal": proximal})
        strange = {"version": 1, "trajectories": rows}
        worst = max(worst, float((flat(look(REC_OPMD, strange)) - flat(look(plain, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 10 batches: {worst:.1e}")


@claim("lowering the baseline by d adds a d-weighted likelihood term", "arXiv 2506.20520")
def shift_is_likelihood() -> Finding:
    """The shifted recipe's gradient against plain REINFORCE's and the likelihood's slope."""
    worst = 0.0
    for number in range(10):
        document = random_document(KEY.derive("shift", number), graded=True)
        for shift in (0.05, 0.5):
            moved = flat(look(REC_ASYMRE.but({"correction.shift": shift}), document))
            plain = flat(look(REC_REINFORCE, document))
            # The likelihood term -shift * mean over decisions of log pi has this slope everywhere.
            wanted = plain - shift / len(plain)
            worst = max(worst, float((moved - wanted).abs().max()))
    return Finding(worst < 1e-12, f"largest difference on 20 cases: {worst:.1e}")


@claim("mask and ratio together are PPO's clipped surrogate", "arXiv 2509.24203, section 3")
def mask_of_ppo() -> Finding:
    """With the ratio put back, the masked gradient is that of PPO's clipped surrogate."""
    ppo = GRPO.but({"credit.scale": None, "objective.aggregate": "token-mean"})
    worst = 0.0
    for number in range(10):
        document = random_document(KEY.derive("mask", number), gap=0.5)
        worst = max(worst, float((flat(look(REC_ONE_SIDE_IS, document)) - flat(look(ppo, document))).abs().max()))
    return Finding(worst < 1e-12, f"largest difference of gradients on 10 batches: {worst:.1e}")


@claim("dropping leaves no more negatives than positives and centres again")
def dropping_balances() -> Finding:
    """Kept negatives never outnumber positives, and what is left is centred on its own mean."""
    worst, most = 0.0, 0
    for number in range(10):
        document = random_document(KEY.derive("drop", number), samples=8)
        found = look(REC_DROP, document)
        for group in sorted({row["group"] for row in document["trajectories"]}):
            own = [n for n, row in enumerate(document["trajectories"]) if row["group"] == group and found["kept"][n]]
            credit = [found["advantages"][n][0] for n in own]
            worst = max(worst, abs(sum(credit)))
            most = max(most, sum(value < 0 for value in credit) - sum(value > 0 for value in credit))
    return Finding(worst < 1e-12 and most <= 0, f"sum of kept advantages {worst:.0e}; surplus of negatives {most}")


BOUNDED = (
    REC_ONE_SIDE,
    REC_ONE_SIDE_IS,
    REC_OPMD.but({"regularisers.0.coefficient": 0.25}),
    REC_ASYMRE.but({"correction.shift": 0.3}),
)


SEEDS = range(5)


def final(recipe: Recipe, *, lag: int, lr: float, steps: int) -> list[float]:
    """The mean success of the last three readings, by seed."""
    found = []
    for seed in SEEDS:
        bench = Bench(TANGLED, recipe.but({"rollout.samples": 16}), seed=seed, lr=lr, steps=steps)
        run_stale(bench, steps, lag=lag, every=5)
        found.append(mean(reading.success for reading in bench.readings[-3:]))
    return found


def told(figures: dict[str, list[float]]) -> str:
    """Lowest and mean per recipe."""
    return ", ".join(f"{name} {min(values):.2f}/{mean(values):.2f}" for name, values in figures.items())


@claim("on another policy's samples plain REINFORCE collapses and each regularised form does not", slow=True)
def of_another_policy() -> Finding:
    """Samples are of the policy at the start from first to last."""
    figures = {r.name: final(r, lag=50, lr=0.2, steps=50) for r in (REC_REINFORCE, *BOUNDED)}
    start = 4 / 9
    holds = max(figures["rec-reinforce"]) < 0.1 and all(min(figures[r.name]) > start - 0.1 for r in BOUNDED)
    return Finding(
        holds, f"samples of the policy at the start throughout (success {start:.2f}); lowest/mean: {told(figures)}"
    )


@claim(
    "on another policy's samples exponential weights prevent the collapse and dropping surplus negatives "
    "alone does not",
    "derived here",
    slow=True,
)
def shaped_data() -> Finding:
    """The two levers on the data, on the same samples."""
    shaped = (REC_DROP, REC_WEIGHT.but({"correction.temperature": 0.5}))
    figures = {r.name: final(r, lag=50, lr=0.2, steps=50) for r in shaped}
    holds = min(figures["rec-weight"]) > 0.35 and max(figures["rec-drop"]) < 0.1
    return Finding(holds, f"samples of the policy at the start throughout; lowest/mean: {told(figures)}")


@claim("on samples 16 steps stale plain REINFORCE collapses and each regularised form does not", slow=True)
def sixteen_steps_stale() -> Finding:
    """A step large enough that feedback comes too late."""
    figures = {r.name: final(r, lag=16, lr=0.6, steps=60) for r in (REC_REINFORCE, *BOUNDED)}
    collapsed = sum(value < 0.1 for value in figures["rec-reinforce"])
    holds = collapsed >= 2 and all(min(figures[r.name]) > 0.34 for r in BOUNDED)
    return Finding(holds, f"16 steps stale; REINFORCE collapsed in {collapsed} of 5; lowest/mean: {told(figures)}")


@claim("at small steps, removing only the importance ratio while keeping the clip's mask changes little", slow=True)
def ratio_matters_little() -> Finding:
    """Two recipes that differ in the ratio alone."""
    figures = {r.name: final(r, lag=16, lr=0.2, steps=60) for r in (REC_ONE_SIDE, REC_ONE_SIDE_IS)}
    gap = abs(mean(figures["rec-one-side"]) - mean(figures["rec-one-side-is"]))
    return Finding(gap < 0.1, f"16 steps stale; lowest/mean: {told(figures)}; difference of means {gap:.3f}")


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

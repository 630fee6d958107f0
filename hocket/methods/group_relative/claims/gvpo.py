"""GVPO's claims."""

import torch

from hocket.lab.bandit import Bandit, descended, total_variation
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows
from hocket.lab.theory import tilted
from hocket.lab.toys.enumerable_groups import REFERENCE, REWARDS, STALE, documents, softmax
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.group_relative.gvpo import GVPO

claim = Claims("gvpo", "arXiv 2504.19599, section 3")


@claim("its gradient is that of 0.5/(k-1) sum (centred R - beta centred d)^2")
def its_gradient_is_that_of_0_5_sum_2() -> Finding:
    gaps, beta = [], 0.1
    for batch in documents(20, "regressions", "gvpo", graded=True):
        rows = batch["trajectories"]
        numbers = [(sum(row["logp"]) - sum(row["logp_ref"]), row["scores"]["reward"]) for row in rows]
        drift, reward = torch.tensor(numbers, dtype=torch.float64).T.requires_grad_()
        names = [row["group"] for row in rows]
        square, weights = torch.zeros((), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)
        for own in (torch.tensor([n == name for n in names]) for name in sorted(set(names))):
            error = reward[own] - reward[own].mean() - beta * (drift[own] - drift[own].mean())
            share = 1 / (len(set(names)) * (int(own.sum()) - 1))
            square = square + 0.5 * share * error.square().sum()
            weights[own] = -beta * share * error.detach()
        slopes = torch.autograd.grad(square, drift)[0], [row[0] for row in inspect_rows(GVPO, rows)["gradient"]]
        gaps += [gap(slope, weights) for slope in slopes]
    return below(EXACT, largest_difference_on_20_batches=max(gaps))


@claim(
    "it converges to pi_ref exp(R/beta)/Z from on-policy, uniform and stale samples, GRPO does not from the last two",
    "arXiv 2504.19599, theorem 3.1",
    slow=True,
)
def it_converges_to_pi_ref_exp_z_from_on_policy_uniform_and_stale() -> Finding:
    beta, ends, drifted = 0.5, {}, {}
    optimum = tilted(REFERENCE.exp(), torch.tensor(REWARDS, dtype=torch.float64), beta)
    leash = {"type": "hocket.objectives.KLToReference", "coefficient": beta}
    grpo = DR_GRPO.but({"regularisers": [leash], "objective.horizon": 1})
    for name, old in (("on-policy", REFERENCE), ("uniform", softmax(0, 0, 0, 0, 0)), ("stale", STALE)):
        # About 50 samples that have the distribution's shares, each answer at least once.
        bandit = Bandit(REWARDS, old, REFERENCE, [max(1, round(share * 50)) for share in old.exp().tolist()])
        ends[name] = total_variation(bandit.minimise(GVPO.but({"objective.temperature": beta})), optimum)
        batch = bandit.batch(grpo)
        end = descended(lambda logits, b=bandit, c=batch: b.loss(grpo, logits, c), REFERENCE, lr=1.0, steps=150)
        drifted[name] = total_variation(end, optimum)
    holds = max(ends.values()) < 1e-4 and drifted["uniform"] > 0.02 and drifted["stale"] > 0.02
    told = ", ".join(f"{name} {apart:.0e} (GRPO {drifted[name]:.2f})" for name, apart in ends.items())
    return Finding(holds, f"total variation to the optimum: {told}")


claim.shipped(GVPO, "objective")
claim.shipped(
    GVPO,
    without={"objective.against": "old"},
    steps=2,
    small="both anchors are the same in the first step, and close in the second",
)

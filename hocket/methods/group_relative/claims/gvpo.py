"""GVPO's claims."""

from __future__ import annotations

import torch

from hocket.lab.bandit import Bandit, descended, total_variation
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, below, gap, inspect_rows
from hocket.lab.documents import random_documents
from hocket.lab.theory import tilted
from hocket.lab.toys.regressions import KEY, REFERENCE, REWARDS, STALE, softmax
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.group_relative.gvpo import GVPO

claim = Claims("gvpo", "arXiv 2504.19599, section 3")


@claim("its gradient is that of 0.5/(k-1) sum (centred R - beta centred d)^2")
def _() -> Finding:
    """The recipe's gradient against the weights formula, and both against autograd of the squared error, apart."""
    gaps, beta = [], 0.1
    for batch in random_documents(KEY.derive("gvpo"), 20, graded=True):
        rows = batch["trajectories"]
        numbers = [(sum(row["logp"]) - sum(row["logp_ref"]), row["scores"]["reward"]) for row in rows]
        drift, reward = torch.tensor(numbers, dtype=torch.float64).T.requires_grad_()
        names = [row["group"] for row in rows]
        square, weights = torch.zeros((), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)
        for name in sorted(set(names)):
            own = torch.tensor([n == name for n in names])
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
def _() -> Finding:
    """Fixed samples of three distributions, gradient descent to the end; GRPO with the same leash beside it."""
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

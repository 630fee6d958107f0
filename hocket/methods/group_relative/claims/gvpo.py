"""What gvpo claims."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.lab.bandit import Bandit, descended, total_variation
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import look
from hocket.lab.theory import tilted
from hocket.lab.toys.regressions import KEY, REFERENCE, REWARDS, STALE, softmax
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.group_relative.gvpo import GVPO

claim = Claims("gvpo", "arXiv 2504.19599, section 3")


def copies_of(distribution: Tensor, number: int = 50) -> list[int]:
    """How often each answer occurs among about `number` samples that have its share, at least once."""
    return [max(1, round(float(share) * number)) for share in distribution]


@claim("its gradient is that of 0.5/(k-1) sum (centred R - beta centred d)^2")
def gvpo_gradient() -> Finding:
    """The recipe's gradient against the weights formula, and both against autograd of the squared error, apart."""
    worst = 0.0
    for number in range(20):
        document = random_document(KEY.derive("gvpo", number), graded=True)
        rows, beta = document["trajectories"], 0.1
        drift = torch.tensor(
            [sum(row["logp"]) - sum(row["logp_ref"]) for row in rows], dtype=torch.float64, requires_grad=True
        )
        reward = torch.tensor([row["scores"]["reward"] for row in rows], dtype=torch.float64)
        names = [row["group"] for row in rows]
        square, wanted = torch.zeros((), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)
        for name in sorted(set(names)):
            own = torch.tensor([n == name for n in names])
            implied, centred = beta * (drift[own] - drift[own].mean()), reward[own] - reward[own].mean()
            share = 1 / (len(set(names)) * (int(own.sum()) - 1))
            square = square + 0.5 * share * (centred - implied).square().sum()
            wanted[own] = -beta * share * (centred - implied).detach()
        (auto,) = torch.autograd.grad(square, drift)
        found = torch.tensor([row[0] for row in look(GVPO, document)["gradient"]], dtype=torch.float64)
        worst = max(worst, float((auto - wanted).abs().max()), float((found - wanted).abs().max()))
    return Finding(worst < 1e-12, f"largest difference on 20 batches: {worst:.1e}")


@claim(
    "it converges to pi_ref exp(R/beta)/Z from on-policy, uniform and stale samples, GRPO does not from the last two",
    "arXiv 2504.19599, theorem 3.1",
    slow=True,
)
def gvpo_minimiser() -> Finding:
    """Fixed samples of three distributions, gradient descent to the end; GRPO with the same leash beside it."""
    beta = 0.5
    optimum = tilted(REFERENCE.exp(), torch.tensor(REWARDS, dtype=torch.float64), beta)
    gvpo = GVPO.but({"objective.temperature": beta})
    grpo = DR_GRPO.but(
        {"regularisers": [{"type": "hocket.objectives.KLToReference", "coefficient": beta}], "objective.horizon": 1}
    )
    apart, drifted = {}, {}
    for name, old in (("on-policy", REFERENCE), ("uniform", softmax(0, 0, 0, 0, 0)), ("stale", STALE)):
        bandit = Bandit(REWARDS, old, REFERENCE, copies_of(old.exp()))
        apart[name] = total_variation(bandit.minimise(gvpo), optimum)
        batch = bandit.batch(grpo)
        ended = descended(lambda logits, b=bandit, c=batch: b.loss(grpo, logits, c), REFERENCE, lr=1.0, steps=150)
        drifted[name] = total_variation(ended, optimum)
    holds = max(apart.values()) < 1e-4 and drifted["uniform"] > 0.02 and drifted["stale"] > 0.02
    told = ", ".join(f"{name} {apart[name]:.0e} (GRPO {drifted[name]:.2f})" for name in apart)
    return Finding(holds, f"total variation to the optimum: {told}")

"""What disco claims."""

from __future__ import annotations

import itertools
import math
from statistics import mean, variance

import torch

from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading, look
from hocket.lab.toys.objectives import KEY, SEEDS, documents, spread, verdict_document
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.disco import DISCO, HingeTrustRegion, discrimination
from hocket.types import Evaluation

claim = Claims("disco", "arXiv 2505.12366")


@claim("as tau grows the loss tends to mean s(wrong) - mean s(right)")
def disco_limit() -> Finding:
    """The soft-max objective at growing temperatures against plain means."""
    errors = []
    rng = KEY.derive("disco limit").numpy()
    score = torch.from_numpy(-rng.exponential(size=24))
    right = torch.arange(24) % 3 == 0
    group = torch.arange(24) // 6
    plain = discrimination(score, right, ~right, group, 4, None)
    apart = torch.stack([score[(group == g) & ~right].mean() - score[(group == g) & right].mean() for g in range(4)])
    for temperature in (10.0, 100.0, 1000.0, 1e4):
        errors.append(float((discrimination(score, right, ~right, group, 4, temperature) - plain).abs().max()))
    tenfold = all(0.08 < after / before < 0.12 for before, after in itertools.pairwise(errors))
    holds = tenfold and float((plain - apart).abs().max()) < 1e-14
    return Finding(
        holds, "distance from the plain means at tau 10, 100, 1e3, 1e4: " + ", ".join(f"{e:.1e}" for e in errors)
    )


@claim("the penalty's gradient is beta max(0, KL - delta) grad KL")
def disco_penalty() -> Finding:
    """The penalty's gradient against beta max(0, KL - delta) grad KL, KL computed apart by autograd."""
    worst, active = 0.0, 0
    for number, document in enumerate(documents(30, gap=0.15)):
        radius = (0.0, 0.005, 0.02)[number % 3]
        read = Reading(document)
        leaf = read.logp.clone().requires_grad_()
        loss = HingeTrustRegion(radius=radius, coefficient=7.0)(Evaluation(leaf), read.batch).total()
        (found,) = torch.autograd.grad(loss, leaf)
        other = read.logp.clone().requires_grad_()
        change = other - read.batch.logp["proximal"].values
        divergence = (change.exp() - 1 - change).mean()
        (slope,) = torch.autograd.grad(divergence, other)
        excess = max(0.0, float(divergence.detach()) - radius)
        active += excess > 0
        worst = max(worst, float((found - 7.0 * excess * slope).abs().max()))
    return Finding(
        worst < 1e-12 and 0 < active < 30, f"largest difference {worst:.1e}; outside the ball in {active} of 30"
    )


@claim(
    "a question's weight does not depend on its success rate, GRPO's is sqrt(p(1-p))",
    "arXiv 2505.12366, proposition 1",
)
def disco_question_weight() -> Finding:
    """How much a question's right answers are raised in all, by its success rate."""
    rates, samples = range(1, 16), 16
    document = verdict_document(rates, samples)
    grpo = GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0})
    disco = DISCO.but({"regularisers": (), "objective.temperature": None})
    soft = DISCO.but({"regularisers": ()})
    lifts = {}
    for recipe in (grpo, disco, soft):
        gradient = flat(look(recipe, document)).reshape(len(rates), samples)
        lifts[id(recipe)] = [-float(gradient[n, :rate].sum()) * len(rates) for n, rate in enumerate(rates)]
    wanted = [math.sqrt(rate / samples * (1 - rate / samples)) for rate in rates]
    error = max(abs(a - b) for a, b in zip(lifts[id(grpo)], wanted, strict=True))
    flatness = max(abs(value - 1) for recipe in (disco, soft) for value in lifts[id(recipe)])
    return Finding(
        error < 1e-12 and flatness < 1e-12,
        f"GRPO's weight is sqrt(p(1-p)) to {error:.0e}, from {wanted[0]:.3f} at 1/16 to 0.5; DisCO's is 1 to "
        f"{flatness:.0e}",
    )


HARD = World(
    # One question in six is easy.
    questions=6,
    tokens=6,
    horizon=2,
    context="last",
    reward=lambda question, answer: float(answer[0] < 4 if question == 0 else answer == (question - 1, question)),
)


@claim(
    "on mostly hard questions it is more accurate than GRPO, its entropy does not collapse and its KL stays near delta",
    "arXiv 2505.12366, section 5",
    slow=True,
)
def disco_hard_questions() -> Finding:
    """Both recipes make four updates of each batch."""
    radius, figures, kls = 2e-3, {}, []
    for recipe in (GRPO.but({"update.epochs": 4}), DISCO.but({"update.epochs": 4, "regularisers.0.radius": radius})):
        rows = []
        for seed in SEEDS:
            bench = Bench(HARD, recipe, seed=seed, lr=0.05, steps=40).run(40, every=40)
            rows.append((bench.success(), bench.entropy()))
            if recipe.name == "disco":
                kls.append(mean(metrics["kl/trust"] for metrics in bench.history if "kl/trust" in metrics))
        figures[recipe.name] = rows
    ours, theirs = ([value for value, _ in figures[name]] for name in ("disco", "grpo"))
    entropies = [entropy for _, entropy in figures["disco"]]
    error = math.sqrt((variance(ours) + variance(theirs)) / len(SEEDS))
    holds = mean(ours) - mean(theirs) > 3 * error and min(entropies) > 0.1 and max(kls) < 2 * radius
    return Finding(
        holds,
        f"success after 40 steps DisCO {spread(ours)}, GRPO {spread(theirs)}; DisCO's entropy "
        f"{spread(entropies)} nats, KL {spread(kls)} "
        f"at radius {radius}",
    )

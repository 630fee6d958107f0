"""What trpa claims."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from hocket.lab.bandit import flat, minimised
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import Reading, look
from hocket.lab.toys.preferences import KEY
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.trpa import TRPA
from hocket.recipe import Recipe
from hocket.types import Evaluation

claim = Claims("trpa", "arXiv 2504.04524")


def loss_of(recipe: Recipe, document: dict[str, Any], logp: Tensor) -> Tensor:
    """The recipe's loss of a document at current log-probs `logp` `[T]`, differentiable in them."""
    batch = recipe.assess(Reading(document).batch, recipe.init(), {})[0]
    return torch.stack([term.total() for term in recipe.loss(Evaluation(logp), batch)]).sum()


@claim("the loss is invariant to any monotone change of reward values, unlike GRPO")
def trpa_sees_order_only() -> Finding:
    """The same batches with rewards bent by rising functions."""
    bends = (lambda r: 3 * r - 7, lambda r: math.exp(4 * r), lambda r: r**3)
    ours, others = 0.0, []
    for number in range(6):
        document = random_document(KEY.derive("order", number), graded=True)
        for bend in bends:
            rows = [{**row, "scores": {"reward": bend(row["scores"]["reward"])}} for row in document["trajectories"]]
            bent = {**document, "trajectories": rows}
            ours = max(ours, float((flat(look(TRPA, bent)) - flat(look(TRPA, document))).abs().max()))
            others.append(float((flat(look(GRPO, bent)) - flat(look(GRPO, document))).abs().max()))
    # A straight line leaves GRPO alone too, the others do not.
    return Finding(
        ours == 0 and max(others) > 1e-2, f"TRPA's gradient moves by {ours:.0e}, GRPO's by up to {max(others):.2f}"
    )


@claim(
    "for two answers the expected loss has the DPO closed form as minimiser",
    "arXiv 2305.18290, equation 5",
    slow=True,
)
def trpa_closed_form() -> Finding:
    """Two answers, the first preferred in a share of the groups: the log-odds move by logit(share) / (c beta)."""
    reference, worst = torch.log_softmax(torch.tensor([0.4, -0.3], dtype=torch.float64), 0), 0.0
    for wins, groups, top in ((7, 10, 1.0), (6, 10, 1.0), (9, 10, 2.5)):
        rows = []
        for group in range(groups):
            for answer in (0, 1):
                better = (answer == 0) == (group < wins)
                own = [float(reference[answer])]
                rows.append({"group": f"{group}", "scores": {"reward": float(better)}, "logp": own, "logp_ref": own})
        recipe = TRPA.but({"regularisers": (), "objective.top": top})
        batch = recipe.assess(Reading({"version": 1, "trajectories": rows}).batch, recipe.init(), {})[0]
        which = torch.tensor([0, 1] * groups)

        def loss(logits: Tensor, recipe: Recipe = recipe, batch: Any = batch, which: Tensor = which) -> Tensor:
            now = Evaluation(torch.log_softmax(logits, 0)[which])
            return torch.stack([term.total() for term in recipe.loss(now, batch)]).sum()

        found = minimised(loss, reference, 60).log()
        share = wins / groups
        wanted = float(reference[0] - reference[1]) + math.log(share / (1 - share)) / (0.1 * top)
        worst = max(worst, abs(float(found[0] - found[1]) - wanted) / abs(wanted))
    return Finding(worst < 1e-4, f"largest relative error of the log-odds: {worst:.1e}")


def preference(policy: Tensor, old: Tensor, level: Tensor) -> float:
    """The probability that an answer of `policy` is of a higher level than one of `old`, ties counted half."""
    above = (level[:, None] > level[None, :]).double() + 0.5 * (level[:, None] == level[None, :]).double()
    return float(policy @ above @ old)


@claim("small steps do not reduce the preference probability against the old policy", "arXiv 2504.04524, theorem")
def trpa_small_steps() -> Finding:
    """All pairs of a bandit's answers weighted by their probability; a small gradient step from the old policy."""
    rng, least, count = KEY.derive("small steps").numpy(), math.inf, 0
    for trial in range(40):
        size = int(rng.integers(3, 8))
        level = torch.from_numpy(rng.integers(0, 3, size))
        if level.min() == level.max():
            continue
        logits = torch.from_numpy(rng.normal(size=size))
        reference = torch.log_softmax(logits + (trial % 2) * torch.from_numpy(rng.normal(size=size)), 0)
        copies = torch.from_numpy(rng.integers(1, 6, size))
        old = torch.log((copies / copies.sum()).double())
        which = torch.repeat_interleave(torch.arange(size), copies)
        rows = [
            {
                "id": f"{number}",
                "group": "g",
                "scores": {"reward": float(level[answer])},
                "logp": [float(old[answer])],
                "logp_ref": [float(reference[answer])],
            }
            for number, answer in enumerate(which.tolist())
        ]
        recipe = TRPA.but({"regularisers.0.coefficient": (0.001, 1.0)[trial % 2]})
        leaf = old.clone().requires_grad_()
        total = loss_of(recipe, {"version": 1, "trajectories": rows}, torch.log_softmax(leaf, 0)[which])
        (slope,) = torch.autograd.grad(total, leaf)
        stepped = torch.softmax(old - 1e-3 / float(slope.norm()) * slope, 0)
        least, count = min(least, preference(stepped, old.exp(), level) - 0.5), count + 1
    return Finding(least >= 0, f"least gain of the preference probability over {count} bandits: {least:.1e}")


@claim("groups of one level fall back to -log sigmoid(+-mean log-ratio)", "released code, core_algos.py")
def trpa_lone_groups() -> Finding:
    """A group of one level is pulled up on the top level and down elsewhere, by -log sigmoid(+-mean log-ratio)."""
    rows = [
        {"group": group, "scores": {"reward": reward}, "logp": [-1.0, -0.5], "logp_ref": [-1.2, -0.9]}
        for group, reward in (("right", 1.0), ("right", 1.0), ("wrong", 0.0), ("wrong", 0.0))
    ]
    recipe = TRPA.but({"regularisers": ()})
    found = look(recipe, {"version": 1, "trajectories": rows})["gradient"]
    drift = 0.3

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    wanted = [-sigmoid(-drift) / 8] * 2 + [sigmoid(drift) / 8] * 2
    worst = max(abs(value - want) for row, want in zip(found, wanted, strict=True) for value in row)
    return Finding(worst < 1e-12, f"largest difference {worst:.1e}")


def correct(question: int, answer: Answer) -> float:
    """Never begins with token 0."""
    return float(answer[0] != 0 and sum(answer) % 4 == question)


# The bonus pays any answer that begins with token 0 more than being right pays.
HACKS = World(
    questions=2,
    tokens=4,
    horizon=2,
    reward=lambda question, answer: 0.0,
    parts={"correct": correct, "bonus": lambda question, answer: 1.5 * (answer[0] == 0)},
    correct=correct,
)


def hacked(question: int, answer: Answer) -> float:
    """Takes the bonus."""
    return float(answer[0] == 0)


@claim("level order blocks a bonus hack that a reward-sum GRPO takes", slow=True)
def trpa_blocks_a_hack() -> Finding:
    """A bonus that excludes being right and pays more; levels are verdicts alone."""
    seeds, figures = range(5), {}
    for recipe in (GRPO, TRPA.but({"credit.order": ("correct",)})):
        benches = [Bench(HACKS, recipe, seed=seed, lr=0.1, steps=50).run(50, every=50) for seed in seeds]
        figures[recipe.name] = [(bench.success(), bench.expected(hacked)) for bench in benches]
    ours, theirs = figures["trpa"], figures["grpo"]
    holds = min(right for right, _ in ours) > max(right for right, _ in theirs) + 0.2 and max(h for _, h in ours) < 0.2
    return Finding(
        holds,
        f"5 seeds, right and hacked: TRPA {mean(r for r, _ in ours):.2f} and {mean(h for _, h in ours):.2f} (worst "
        f"{min(r for r, _ in ours):.2f}), GRPO {mean(r for r, _ in theirs):.2f} and {mean(h for _, h in theirs):.2f}",
    )

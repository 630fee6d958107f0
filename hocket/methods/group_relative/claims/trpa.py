"""TRPA's claims."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.lab.bandit import Bandit, minimised
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, below, gap, gradient, inspect_rows, say
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.preferences import KEY
from hocket.lab.toys.rewarded import document
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.trpa import TRPA
from hocket.recipe import Recipe
from hocket.types import Evaluation

claim = Claims("trpa", "arXiv 2504.04524")


def credited(recipe: Recipe, rows: list[dict[str, Any]]) -> Batch:
    return recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), {})[0]


def loss_of(recipe: Recipe, batch: Batch, logp: Tensor) -> Tensor:
    """The recipe's loss of a batch at current log-probs `logp` `[T]`, differentiable in them."""
    return torch.stack([term.total() for term in recipe.loss(Evaluation(logp), batch)]).sum()


@claim("the loss is invariant to any monotone change of reward values, unlike GRPO")
def _() -> Finding:
    """The same batches with rewards bent by rising functions. A straight line leaves GRPO alone too, others do not."""
    ours, others = list[float](), list[float]()
    for number in range(6):
        plain = random_document(KEY.derive("order", number), graded=True)
        for bend in (lambda r: 3 * r - 7, lambda r: math.exp(4 * r), lambda r: r**3):
            rows = [{**row, "scores": {"reward": bend(row["scores"]["reward"])}} for row in plain["trajectories"]]
            for recipe, gaps in ((TRPA, ours), (GRPO, others)):
                gaps.append(gap(gradient(recipe, document(rows)), gradient(recipe, plain)))
    saw = say(TRPAs_gradient_moves_by=max(ours), GRPOs_by_up_to=max(others))
    return Finding(max(ours) == 0 and max(others) > 1e-2, saw)


@claim(
    "for two answers the expected loss has the DPO closed form as minimiser", "arXiv 2305.18290, equation 5", slow=True
)
def _() -> Finding:
    """Two answers, the first preferred in a share of the groups: the log-odds move by logit(share) / (c beta)."""
    reference, errors = torch.log_softmax(torch.tensor([0.4, -0.3], dtype=torch.float64), 0), []
    which = torch.tensor([0, 1] * 10)
    for wins, top in ((7, 1.0), (6, 1.0), (9, 2.5)):
        rows = []
        for number, answer in enumerate(which.tolist()):
            better, own = (answer == 0) == (number // 2 < wins), [float(reference[answer])]
            rows.append({"group": f"{number // 2}", "scores": {"reward": better}, "logp": own, "logp_ref": own})
        recipe = TRPA.but({"regularisers": (), "objective.top": top})
        batch = credited(recipe, rows)

        def loss(logits: Tensor, recipe: Recipe = recipe, batch: Batch = batch) -> Tensor:
            return loss_of(recipe, batch, torch.log_softmax(logits, 0)[which])

        left, right = minimised(loss, reference, 60).log().tolist()
        wanted = float(reference[0] - reference[1]) + math.log(wins / (10 - wins)) / (0.1 * top)
        errors.append(abs(left - right - wanted) / abs(wanted))
    return below(1e-4, largest_relative_error_of_the_log_odds=max(errors))


@claim("small steps do not reduce the preference probability against the old policy", "arXiv 2504.04524, theorem")
def _() -> Finding:
    """All pairs of a bandit's answers weighted by their probability; a small gradient step from the old policy."""
    rng, gains = KEY.derive("small steps").numpy(), []
    for trial in range(40):
        size = int(rng.integers(3, 8))
        level = torch.from_numpy(rng.integers(0, 3, size))
        if level.min() == level.max():
            continue
        logits = torch.from_numpy(rng.normal(size=size))
        reference = torch.log_softmax(logits + (trial % 2) * torch.from_numpy(rng.normal(size=size)), 0)
        copies = torch.from_numpy(rng.integers(1, 6, size))
        old = torch.log((copies / copies.sum()).double())
        recipe = TRPA.but({"regularisers.0.coefficient": (0.001, 1.0)[trial % 2]})
        bandit, leaf = Bandit(level.tolist(), old, reference, copies.tolist()), old.clone().requires_grad_()
        (slope,) = torch.autograd.grad(bandit.loss(recipe, leaf, bandit.batch(recipe)), leaf)
        stepped = torch.softmax(old - 1e-3 / float(slope.norm()) * slope, 0)
        # The probability that an answer now is of a higher level than one of the old policy, ties counted half.
        above = (level[:, None] > level).double() + 0.5 * (level[:, None] == level).double()
        gains.append(float(stepped @ above @ old.exp()) - 0.5)
    return Finding(min(gains) >= 0, say(bandits=len(gains), least_gain_of_the_preference_probability=min(gains)))


@claim("groups of one level fall back to -log sigmoid(+-mean log-ratio)", "released code, core_algos.py")
def _() -> Finding:
    """A group of one level is pulled up on the top level and down elsewhere, by -log sigmoid(+-mean log-ratio)."""
    row, drift = {"logp": [-1.0, -0.5], "logp_ref": [-1.2, -0.9]}, 0.3
    rows = [{**row, "group": f"{reward}", "scores": {"reward": reward}} for reward in (1.0, 1.0, 0.0, 0.0)]
    up, down = (sign / (1 + math.exp(-sign * drift)) / 8 for sign in (-1, 1))
    slopes = inspect_rows(TRPA.but({"regularisers": ()}), rows)["gradient"]
    return below(EXACT, largest_difference=gap(slopes, [[up] * 2] * 2 + [[down] * 2] * 2))


def correct(question: int, answer: Answer) -> float:
    """Never begins with token 0."""
    return float(answer[0] != 0 and sum(answer) % 4 == question)


def hacked(question: int, answer: Answer) -> float:
    """Takes the bonus, which pays any answer that begins with token 0 more than being right pays."""
    return float(answer[0] == 0)


PARTS = {"correct": correct, "bonus": lambda question, answer: 1.5 * hacked(question, answer)}
HACKS = World(2, 4, 2, reward=lambda question, answer: 0.0, parts=PARTS, correct=correct)


@claim("level order blocks a bonus hack that a reward-sum GRPO takes", slow=True)
def _() -> Finding:
    """A bonus that excludes being right and pays more; levels are verdicts alone."""
    (ours, hacks), (theirs, their_hacks) = (
        zip(*((bench.success(), bench.expected(hacked)) for bench in benches), strict=True)
        for recipe in (TRPA.but({"credit.order": ("correct",)}), GRPO)
        for benches in ([Bench(HACKS, recipe, seed=n, lr=0.1, steps=50).run(50, every=50) for n in SEEDS],)
    )
    saw = say(TRPA_right=mean(ours), worst=min(ours), hacked=mean(hacks), GRPO_right=mean(theirs))
    holds = min(ours) > max(theirs) + 0.2 and max(hacks) < 0.2
    return Finding(holds, f"5 seeds: {saw}, {say(hacked=mean(their_hacks))}")

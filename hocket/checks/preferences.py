"""Rows that learn from the order of answers, or from how sure the policy was: trpa and lens."""

from __future__ import annotations

import math
from statistics import mean, variance
from typing import Any

import torch
from torch import Tensor

from hocket.checks.check import Check, Finding
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular, World
from hocket.lab.bandit import flat, minimised
from hocket.lab.documents import random_document
from hocket.microscope import Reading, look
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.objectives import LENS, TRPA
from hocket.rewards.calibrated import calibrated_reward
from hocket.types import Evaluation

KEY = Key.of(0).derive("checks", "preferences")


def loss_of(recipe: Recipe, document: dict[str, Any], logp: Tensor) -> Tensor:
    """The recipe's loss of a document at current log-probs `logp` `[T]`, differentiable in them."""
    batch = recipe.assess(Reading(document).batch, recipe.init(), {})[0]
    return torch.stack([term.total() for term in recipe.loss(Evaluation(logp), batch)]).sum()


# ---------------------------------------------------------------- trpa


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


# ---------------------------------------------------------------- lens


def lens_gradient() -> Finding:
    """Finite differences of E[r log p + (1 - r) log(1 - p)], p = pi/D, against the reward's policy gradient."""
    rng, worst = KEY.derive("lens").numpy(), 0.0
    for _ in range(20):
        logits = torch.from_numpy(rng.normal(size=6))
        right = torch.from_numpy((rng.random(6) < 0.4).astype(float))
        pi = torch.softmax(logits, 0)
        difficulty = float(pi.max()) + 0.1
        score = torch.eye(6, dtype=torch.float64) - pi
        reward = calibrated_reward(right, pi, torch.full_like(pi, difficulty), None)
        wanted = ((pi * reward)[:, None] * score).sum(0)

        def likelihood(moved: Tensor, pi: Tensor = pi, right: Tensor = right, difficulty: float = difficulty) -> float:
            p = torch.softmax(moved, 0) / difficulty
            return float((pi * (right * p.log() + (1 - right) * (1 - p).log())).sum())

        for place in range(6):
            step = torch.zeros(6, dtype=torch.float64)
            step[place] = 1e-5
            slope = (likelihood(logits + step) - likelihood(logits - step)) / 2e-5
            worst = max(worst, abs(slope - float(wanted[place])))
    return Finding(worst < 1e-8, f"largest difference from finite differences on 20 policies: {worst:.1e}")


def lens_range() -> Finding:
    """Over a grid of confidences below D = 0.9."""
    grid = torch.linspace(0, 0.89, 90, dtype=torch.float64)
    exact = calibrated_reward(torch.zeros_like(grid), grid, torch.full_like(grid, 0.9), None)
    bounded = calibrated_reward(torch.zeros_like(grid), grid, torch.full_like(grid, 0.9), 1.0)
    kept = calibrated_reward(torch.ones_like(grid), grid, torch.full_like(grid, 0.9), None)
    falling = bool((exact[1:] < exact[:-1]).all()) and bool((bounded[1:] < bounded[:-1]).all())
    holds = falling and bool((kept == 1).all()) and bool((exact <= 0).all()) and float(bounded.min()) >= -1
    return Finding(
        holds,
        f"wrong answers from 0 to {float(exact.min()):.0f} as pi nears D, bounded {float(bounded.min()):.2f}; "
        "right ones 1",
    )


def lens_all_wrong() -> Finding:
    """A group without a right answer: nothing for GRPO; here the surest answer is lowered most."""
    logps = ([-0.1, -0.2], [-1.0, -0.6], [-2.0, -1.5], [-0.9])
    rows = [{"group": "g", "scores": {"reward": 0.0}, "logp": logp} for logp in logps]
    document = {"version": 1, "trajectories": rows}
    plain, advantages = flat(look(GRPO, document)), [row[0] for row in look(LENS, document)["advantages"]]
    sure = [math.exp(mean(logp)) for logp in logps]
    ranked = sorted(range(4), key=lambda i: sure[i])
    falls = [advantages[i] for i in ranked] == sorted(advantages, reverse=True)
    holds = not plain.any() and falls and min(advantages) < 0
    return Finding(
        holds, f"GRPO 0; advantages {[round(a, 2) for a in advantages]} at confidences {[round(s, 2) for s in sure]}"
    )


def rare(policy: Tabular) -> None:
    """A policy with a favourite mistake, right about once in fifty answers."""
    policy.logits[:, 0] += 3.7


RARE = World(questions=16, tokens=12, horizon=1, reward=lambda question, answer: float(answer == (question % 11 + 1,)))


def firsts(recipe: Recipe, seed: int, steps: int) -> list[int]:
    """The step at which each question was first answered rightly, `steps` + 1 if never; two samples a step."""
    bench = Bench(RARE, recipe.but({"rollout.samples": 2}), seed=seed, lr=0.3, steps=steps, start=rare)
    seen: dict[str, int] = {}
    while len(seen) < RARE.questions and bench.done < steps:
        for trajectory in bench.step().trajectories:
            if RARE.success(trajectory) > 0:
                seen.setdefault(trajectory.scenario.id, bench.done)
    return [seen.get(f"lab/{question}", steps + 1) for question in range(RARE.questions)]


def lens_finds_sooner() -> Finding:
    """Sixteen questions and eight seeds; the difference against its standard error."""
    steps, start = 70, Bench(RARE, GRPO, start=rare).success()
    waits = {r.name: [step for seed in range(8) for step in firsts(r, seed, steps)] for r in (GRPO, LENS)}
    lens, grpo = mean(waits["lens"]), mean(waits["grpo"])
    error = math.sqrt(sum(variance(values) / len(values) for values in waits.values()))
    return Finding(
        grpo - lens > 3 * error,
        f"from success {start:.3f}: first right answer at step {lens:.1f} against {grpo:.1f} (standard error of the "
        f"difference {error:.1f}), 128 questions each",
    )


CHECKS: tuple[Check, ...] = (
    Check(
        "trpa",
        "the loss is invariant to any monotone change of reward values, unlike GRPO",
        trpa_sees_order_only,
        "arXiv 2504.04524",
    ),
    Check(
        "trpa",
        "for two answers the expected loss has the DPO closed form as minimiser",
        trpa_closed_form,
        "arXiv 2305.18290, equation 5",
        slow=True,
    ),
    Check(
        "trpa",
        "small steps do not reduce the preference probability against the old policy",
        trpa_small_steps,
        "arXiv 2504.04524, theorem",
    ),
    Check(
        "trpa",
        "groups of one level fall back to -log sigmoid(+-mean log-ratio)",
        trpa_lone_groups,
        "released code, core_algos.py",
    ),
    Check(
        "trpa",
        "level order blocks a bonus hack that a reward-sum GRPO takes",
        trpa_blocks_a_hack,
        "arXiv 2504.04524",
        slow=True,
    ),
    Check(
        "lens",
        "the gradient of the likelihood is the policy gradient of the calibrated reward",
        lens_gradient,
        "arXiv 2510.08696",
    ),
    Check(
        "lens",
        "the reward is 1 for right answers, in (-inf, 0] for wrong ones, and falls with pi",
        lens_range,
        "arXiv 2510.08696",
    ),
    Check(
        "lens",
        "in an all-wrong group GRPO's gradient is 0 and this one lowers the surest wrong answer most",
        lens_all_wrong,
        "arXiv 2510.08696",
    ),
    Check(
        "lens",
        "from a 2 percent solve rate the first right answer is found earlier than by GRPO",
        lens_finds_sooner,
        "arXiv 2510.08696",
        slow=True,
    ),
)

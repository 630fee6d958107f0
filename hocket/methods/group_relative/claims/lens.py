"""What lens claims."""

from __future__ import annotations

import math
from statistics import mean, variance

import torch
from torch import Tensor

from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.preferences import KEY
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.lens import LENS, calibrated_reward
from hocket.recipe import Recipe

claim = Claims("lens", "arXiv 2510.08696")


@claim("the gradient of the likelihood is the policy gradient of the calibrated reward")
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


@claim("the reward is 1 for right answers, in (-inf, 0] for wrong ones, and falls with pi")
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


@claim("in an all-wrong group GRPO's gradient is 0 and this one lowers the surest wrong answer most")
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


@claim("from a 2 percent solve rate the first right answer is found earlier than by GRPO", slow=True)
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

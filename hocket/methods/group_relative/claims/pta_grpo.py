"""What pta-grpo claims."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.batch import Batch
from hocket.core.packing import pack
from hocket.credit.group import GroupRelative
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.rewarded import line
from hocket.lab.toys.toys import Instances, Verdict
from hocket.lab.world import Answer
from hocket.methods.group_relative.pta_grpo import PTA_GRPO, PlanAndSolution
from hocket.recipe import Recipe
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn

claim = Claims("pta-grpo", "arXiv:2510.01833; estimator and split of credit are our choice")


CHOICE = np.array([0.3, 0.7])
"""How likely each of two strategies is planned."""


RATES = np.array([0.2, 0.6])
"""How often each succeeds."""


def tree(plans: Sequence[int], outcomes: Sequence[Sequence[float]]) -> Batch:
    """A batch of plans (one decision each, shared) and their solutions (one decision each)."""
    found = []
    for plan, results in zip(plans, outcomes, strict=True):
        stem = Turn("p", "p", np.zeros(1, np.int64), np.array([plan]), np.array([-1.0], np.float32))
        for result in results:
            leaf = Turn("p", "p", np.zeros(0, np.int64), np.array([9]), np.array([-1.0], np.float32), parent=stem)
            found.append(Trajectory(Scenario("s"), [stem, leaf], scores={"verdict": Score(result)}))
    return WeightedSum()(pack(found), {})


def cases(plans: int, solutions: int) -> Iterator[tuple[float, tuple[int, ...], list[tuple[float, ...]]]]:
    """Every tree and its probability."""
    for chosen in itertools.product(range(2), repeat=plans):
        for flat in itertools.product((0.0, 1.0), repeat=plans * solutions):
            outcomes = [flat[k * solutions : (k + 1) * solutions] for k in range(plans)]
            chance = float(np.prod(CHOICE[list(chosen)]))
            for plan, results in zip(chosen, outcomes, strict=True):
                chance *= float(np.prod([RATES[plan] if result else 1 - RATES[plan] for result in results]))
            yield chance, chosen, outcomes


@claim("a plan's value is unbiased, its variance over plans between + within/m")
def plan_value_is_unbiased() -> Finding:
    """A plan's value is unbiased, its variance over plans between + within/m."""
    saw, worst = [], 0.0
    between = float(CHOICE @ RATES**2 - (CHOICE @ RATES) ** 2)
    within = float(CHOICE @ (RATES * (1 - RATES)))
    for solutions in (1, 2, 4):
        first = second = 0.0
        by_plan = np.zeros(2)
        for chance, (plan,), (results,) in cases(1, solutions):
            value = fmean(results)
            first, second = first + chance * value, second + chance * value**2
            by_plan[plan] += chance * value
        variance, wanted = second - first**2, between + within / solutions
        worst = max(worst, abs(variance - wanted), float(np.abs(by_plan / CHOICE - RATES).max()))
        saw.append(f"m={solutions}: {variance:.4f}")
    return Finding(
        worst < 1e-12, f"variance over plans {', '.join(saw)} = between {between:.4f} + within {within:.4f}/m"
    )


@claim("the expected plan gradient is the true one times (P - 1)/P")
def expected_gradient() -> Finding:
    """The plan's logits move by advantage times the score function, each plan decision counted in its trajectories."""
    true = CHOICE * (RATES - CHOICE @ RATES)
    worst, saw = 0.0, []
    for plans, solutions in ((2, 2), (3, 1)):
        gradient = np.zeros(2)
        for chance, chosen, outcomes in cases(plans, solutions):
            batch = tree(chosen, outcomes)
            seen = PlanAndSolution()(batch)
            first = batch.turn[seen.decision] == batch.turn[seen.decision][::2].repeat_interleave(2)
            for advantage, decision in zip(seen.advantage[first].tolist(), seen.decision[first].tolist(), strict=True):
                score = -CHOICE.copy()
                score[int(batch.action[decision])] += 1
                gradient += chance * advantage * score / (plans * solutions)
        worst = max(worst, float(np.abs(gradient - true * (plans - 1) / plans).max()))
        saw.append(f"P={plans}, m={solutions}: {gradient[1] / true[1]:.4f}")
    return Finding(worst < 1e-12, f"expected plan gradient over the true one: {'; '.join(saw)}")


@claim("one solution per plan is mean-centred outcome GRPO")
def one_solution_is_grpo() -> Finding:
    """One solution per plan is mean-centred outcome GRPO."""
    worst = 0.0
    for chosen, outcomes in (((0, 1, 1, 0), ((1.0,), (0.0,), (0.0,), (0.0,))), ((1, 1, 1), ((1.0,), (1.0,), (0.25,)))):
        batch = tree(chosen, outcomes)
        plain = GroupRelative(scale=None)(batch).advantage
        worst = max(worst, float((PlanAndSolution()(batch).advantage - plain).abs().max()))
    return Finding(worst < 1e-12, f"largest difference from mean-centred outcomes {worst:.1e}")


STRATEGIES = (1, 2, 3, 1)
"""In how many cases of four each plan succeeds."""


def noisy_execution() -> Instances:
    """A plan, then an execution whose success also depends on what the instance holds, which nobody knows."""
    return Instances(
        questions=1,
        tokens=4,
        horizon=2,
        reward=lambda question, answer: 0.0,
        correct=lambda question, answer: STRATEGIES[answer[0]] / 4,
        context="position",
        count=4,
        about=lambda number: {"question": 0, "holds": number},
    )


def executed(told: Mapping[str, Any], answer: Answer) -> float:
    """The verdict on an execution."""
    return float((answer[1] + told["holds"]) % 4 < STRATEGIES[answer[0]])


def best_plan(plans: int, solutions: int, seed: int, steps: int = 40) -> list[float]:
    """The probability of the best plan after each tenth step."""
    method: Recipe = PTA_GRPO.but(
        {"rollout.plans": plans, "rollout.solutions": solutions, "rollout.marker": "", "rollout.plan_tokens": 1},
        rewards=(Verdict(executed),),
    )
    made, found = Bench(noisy_execution(), method, seed=seed, steps=steps, prompts=1), []
    for step in range(steps):
        made.step()
        if step % 10 == 9:
            with torch.no_grad():
                found.append(float(torch.softmax(made.policy.logits[made.policy.row(0, ())], 0)[2]))
    return found


@claim("at an equal number of plans, 4 solutions prefer the best strategy sooner than 1", slow=True)
def more_solutions_prefer_sooner() -> Finding:
    """At an equal number of plans, 4 solutions prefer the best strategy sooner than 1."""
    seeds = range(10)
    runs = {shape: [best_plan(*shape, seed) for seed in seeds] for shape in ((2, 1), (2, 4), (8, 1))}
    curves = {shape: [fmean([run[k] for run in found]) for k in range(4)] for shape, found in runs.items()}
    sooner = all(b > a for a, b in zip(curves[2, 1], curves[2, 4], strict=True))
    said = "; ".join(f"P={p}, m={m}: {line(curve)}" for (p, m), curve in curves.items())
    return Finding(
        sooner,
        f"probability of the best plan after 10, 20, 30, 40 steps, means of 10 seeds: {said}. At equal rollouts 8 "
        "plans of one solution are the better estimate, as the variance says",
    )

"""What aepo claims."""

from __future__ import annotations

from statistics import fmean
from typing import cast

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.token_weights import GRPO, SEEDS, document, same, sample, shown, trained
from hocket.lab.world import World
from hocket.objectives.among import Among
from hocket.recipes import find

claim = Claims("aepo", "arXiv 2510.08141")


AEPO = find("aepo")
TEMPERED_TERM = cast(Among, AEPO.regularisers[0])


@claim("For R = 1 the extra term's expected gradient is the cross-entropy's; its effect on entropy turns at T = 1.")
def flat_reward_pulls_to_heat() -> Finding:
    """For R = 1 the extra term's expected gradient is minus the cross-entropy's, whose effect on H turns at T = 1."""
    found, slopes, scale = [], [], TEMPERED_TERM.coefficient
    for factor in (0.5, 0.8, 1.0, 1.25, 2.0):
        values = torch.tensor([1.2, 0.3, -0.5, -1.0], dtype=torch.float64, requires_grad=True)
        policy = torch.log_softmax(values, 0)
        heated = torch.softmax(values.detach() / factor, 0)
        rows = [sample("a", 1.0, [float(policy[token].detach())], info={"tempered": True}) for token in range(4)]
        # The recipe's gradient in log-probs, each arm once; weighted by pi^T it is the expectation.
        slope = torch.tensor([row[0] for row in look(AEPO, document(*rows))["gradient"]], dtype=torch.float64)
        term = (slope * 4 * heated.detach() * policy).sum()
        (ours,) = torch.autograd.grad(term, values, retain_graph=True)
        crossed = -(heated * policy).sum()
        (cross,) = torch.autograd.grad(crossed, values, retain_graph=True)
        entropy = -(policy.exp() * policy).sum()
        (upward,) = torch.autograd.grad(entropy, values)
        found.append(same(ours.tolist(), (scale * cross).tolist()))
        slopes.append(float(-ours @ upward))
    holds = (
        all(found) and slopes[0] < 0 and slopes[1] < 0 and abs(slopes[2]) < 1e-12 and slopes[3] > 0 and slopes[4] > 0
    )
    return Finding(
        holds, f"equal to the cross-entropy's gradient; change of entropy at T = 0.5, 0.8, 1, 1.25, 2: {shown(slopes)}"
    )


@claim("Only right tempered samples pull, apart from the group's statistics.")
def parts_do_not_mix() -> Finding:
    """Tempered samples change neither the group's statistics nor the surrogate, and wrong ones pull at nothing."""
    rows = [sample("a", r, [-1.0, -0.5]) for r in (0.0, 1.0, 1.0)]
    extra = [sample("a", r, [-2.0], info={"tempered": True}) for r in (0.0, 1.0)]
    ours, plain = look(AEPO, document(*rows, *extra)), look(GRPO, document(*rows))
    holds = ours["gradient"][:3] == plain["gradient"] and ours["gradient"][3] == [0.0]
    holds &= same(ours["gradient"][4], [-TEMPERED_TERM.coefficient / 2])
    return Finding(holds, f"own samples as in GRPO; tempered ones {ours['gradient'][3:]}")


ARMS = 8


@claim("On a bandit with several right arms entropy settles around each target, while GRPO's falls to 0.", slow=True)
def entropy_settles() -> Finding:
    """Entropy settles around each target, where GRPO's falls to 0."""
    world = World(
        questions=4,
        tokens=ARMS,
        horizon=1,
        # Arm 4 is always right, 0 to 3 in three of four questions that look the same.
        reward=lambda question, answer: float(answer[0] < 5 and answer[0] != question),
        context=lambda question, prefix: "arm",
    )
    levels: dict[float, list[float]] = {}
    rewards: dict[float, float] = {}
    for target in (0.4, 0.8, 1.2):
        runs = []
        for seed in SEEDS:
            recipe = AEPO.but({"rollout.target": target, "rollout.extra": 8})
            bench = trained(Bench(world, recipe, seed=seed, lr=0.03), 100)
            seen = [trained(bench, 4).entropy() for _ in range(10)]
            levels.setdefault(target, []).append(fmean(seen))
            runs.append(bench.success())
        rewards[target] = fmean(runs)
    fallen = [trained(Bench(world, GRPO.but({"rollout.samples": 16}), seed=seed, lr=0.03), 300) for seed in SEEDS]
    low = [bench.entropy() for bench in fallen]
    holds = all(abs(one - target) < 0.25 for target, found in levels.items() for one in found) and max(low) < 0.15
    plain = [bench.success() for bench in fallen]
    curve = ", ".join(f"{fmean(levels[t]):.2f} nats: {rewards[t]:.3f}" for t in levels)
    return Finding(
        holds,
        "mean entropy by seed at targets "
        + "; ".join(f"{t}: {shown(found)}" for t, found in levels.items())
        + f"; GRPO's falls to {shown(low)}; reward against entropy: {curve}, GRPO {fmean(plain):.3f}",
    )

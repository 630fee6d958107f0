"""What spo claims."""

from __future__ import annotations

import math
import statistics

import numpy as np

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.control_runs import LONGEST, SEEDS, cart_pole, in_words
from hocket.lab.toys.trust_regions import ADVANTAGES, slope, worst
from hocket.lab.world import World
from hocket.methods.group_relative.spo import QuadraticDrift
from hocket.objectives.drift import DriftSurrogate
from hocket.recipes import find

claim = Claims("spo", "arXiv 2401.16025")


@claim("The slope is zero at r = 1 + eps sign(A) for every A.")
def _optimum_of_the_penalty() -> Finding:
    spo, epsilon = find("spo"), 0.2
    at = [abs(slope(spo, 1 + epsilon * math.copysign(1, a), a)) for a in ADVANTAGES]
    return Finding(max(at) < 1e-12, f"largest |slope| at 1 + eps sign(A), over {len(at)} advantages: {max(at):.1e}")


@claim("At r = 1 the slope is the policy gradient's.")
def _penalty_starts_as_the_policy_gradient() -> Finding:
    gap = worst([(slope(find("spo"), 1.0, a), a) for a in ADVANTAGES])
    return Finding(gap < 1e-12, f"largest |slope at r = 1 minus A|: {gap:.1e}")


@claim("Outside the range the slope has the opposite sign, where PPO's is 0.")
def _penalty_pulls_back_where_the_clip_is_silent() -> Finding:
    spo, ppo = find("spo"), find("ppo")
    beyond = [(1 + math.copysign(far, a), a) for a in ADVANTAGES for far in (0.21, 0.4, 0.8)]
    back = all(slope(spo, r, a) * a < 0 for r, a in beyond)
    silent = all(slope(ppo, r, a) == 0 for r, a in beyond)
    return Finding(back and silent, f"{len(beyond)} places beyond the range: SPO points back {back}, PPO is 0 {silent}")


@claim("The same term stands in for the clip of a token policy.", "derived", slow=True)
def _penalty_for_tokens() -> Finding:
    objective = DriftSurrogate(drift=QuadraticDrift(0.2), aggregate="sequence-mean")
    recipe = find("grpo").but(name="grpo-spo", objective=objective)
    noise = Key.of(1).numpy()
    rows = []
    for number, length in enumerate((3, 1, 5, 2)):
        old = -noise.uniform(0.1, 2.0, length)
        new = old + noise.normal(scale=0.3, size=length)
        scores = {"reward": float(number % 2)}
        rows.append({"group": "g", "scores": scores, "logp": new.tolist(), "logp_behaviour": old.tolist()})
    seen = look(recipe, {"version": 1, "trajectories": rows})
    gap = 0.0
    for row, advantages, gradients in zip(rows, seen["advantages"], seen["gradient"], strict=True):
        ratio = np.exp(np.array(row["logp"]) - np.array(row["logp_behaviour"]))
        a = np.array(advantages)
        expected = -ratio * (a - np.abs(a) * (ratio - 1) / 0.2) / len(ratio) / len(rows)
        gap = max(gap, float(np.abs(expected - np.array(gradients)).max()))
    bench = Bench(sums(), recipe.but({"update.epochs": 4}), seed=0)
    start = bench.success()
    bench.run(40)
    learnt = bench.success() > start + 0.3
    return Finding(
        gap < 1e-12 and learnt,
        f"GRPO with the penalty: gradient off by {gap:.1e}; success on sequences {start:.2f} -> {bench.success():.2f}",
    )


def sums() -> World:
    """Three digits whose sum modulo 5 is asked for."""
    return World(questions=4, tokens=5, horizon=3, reward=lambda question, answer: float(sum(answer) % 5 == question))


@claim(
    "With many epochs per batch |r - 1| stays near eps while PPO's grows; the return is within a tenth of PPO's.",
    slow=True,
)
def _penalty_keeps_ratios_near() -> Finding:
    steps, epochs, epsilon = 5, 16, 0.2
    spo = [cart_pole("spo", seed, steps, epochs) for seed in SEEDS]
    ppo = [cart_pole("ppo", seed, steps, epochs) for seed in SEEDS]
    near, far = (statistics.mean(run.furthest[-1] for run in runs) for runs in (spo, ppo))
    most = max(value for run in spo for value in run.furthest)
    ours, theirs = [run.score for run in spo], [run.score for run in ppo]
    holds = most < 2 * epsilon and near < far / 2 and statistics.mean(ours) > statistics.mean(theirs) - 0.1 * LONGEST
    return Finding(
        holds,
        f"{epochs} epochs per batch, {len(SEEDS)} seeds: largest |r - 1| in the last step {near:.2f} against PPO's "
        f"{far:.2f} (ever: {most:.2f}); return of at most {LONGEST}: {in_words(ours)} against {in_words(theirs)}",
    )

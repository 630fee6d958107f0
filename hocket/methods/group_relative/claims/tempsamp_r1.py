"""TempSamp-R1's claims."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, gap, runs, say
from hocket.lab.toys.recorded_answers import advantages, group_relative, lines, said, shaped
from hocket.lab.toys.training import area
from hocket.lab.world import World
from hocket.methods.group_relative.temporal_r1 import interval_iou
from hocket.methods.group_relative.tempsamp_r1 import TEMPSAMP_R1, asymmetric_curve
from hocket.rollout.independent import Independent
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory

claim = Claims("tempsamp-r1", "TempSamp-R1, arXiv:2509.18056; constants chosen here")


@claim("the curve is continuous, increasing, fixed at t and flatter above")
def the_curve_is_continuous_increasing_fixed_at_t_and_flatter_above() -> Finding:
    shape: Any = TEMPSAMP_R1.shaping[0]
    t, a, b = shape.threshold, shape.above, shape.below
    grid = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    rise = asymmetric_curve(grid, t, a, b).diff()
    slope = rise / grid.diff()
    at, *values = asymmetric_curve(torch.tensor([t, t + 0.2, t - 0.5], dtype=torch.float64), t, a, b).tolist()
    least, above, below, step = map(float, (slope.min(), slope[grid[:-1] > t].max(), slope[0], rise.max()))
    formula = [t + a * math.log1p(0.2), t - (math.exp(b * 0.5) - 1) / (math.exp(b) - 1)]
    holds = least > 0 and step < 2e-5 and at == t and above < below and gap(values, formula) < 1e-12
    slopes = say(least_slope=least, largest_slope_above=above, near_0=below, largest_step=step, value_at_t=at)
    return Finding(holds, slopes)


@claim("as shipped the curve is t = 0.8, a = 0.01, b = 1, of the whole return; of eight the expert gives one, if known")
def as_shipped_the_curve_is_t_0_8_a_0_01_b_1_of_the_whole_return_of() -> Finding:
    rewards = (0.0, 0.3, 0.8, 0.9, 1.0, -0.5)
    hand = [0.8 + 0.01 * math.log(0.2 + r) if r > 0.8 else 0.8 - math.expm1(0.8 - r) / math.expm1(1) for r in rewards]
    off, asked = gap(shaped(TEMPSAMP_R1, [said("q", "", r) for r in rewards]), hand), list[Any]()

    async def play(some: Sequence[Assignment]) -> list[Trajectory]:
        asked.extend((one.scenario.metadata.get("demonstration"), one.samples, one.source) for one in some)
        return []

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    rows = [Scenario("a", "?", "7"), Scenario("b", "?", None, {"demonstration": "so 7"}), Scenario("c", "?")]
    collected = TEMPSAMP_R1.rollout.collect(
        list(map(Assignment, rows)), play=play, score=score, ledger=Ledger(), key=Key.of(0)
    )
    asyncio.run(collected)
    wanted = [(None, 7, "own"), ("7", 1, "expert"), ("so 7", 7, "own"), ("so 7", 1, "expert"), (None, 8, "own")]
    return Finding(off < 1e-12 and asked == wanted, say(off_the_formula=off, asked=str(asked)))


@claim("the best sample beside an expert keeps a positive advantage")
def the_best_sample_beside_an_expert_keeps_a_positive_advantage() -> Finding:
    rewards = (0.65, 0.65, 0.4, 1.0)
    rows = [said("q", str(n), r, source="own" if n < 3 else "expert") for n, r in enumerate(rewards)]
    bent, plain = advantages(TEMPSAMP_R1, rows), advantages(TEMPSAMP_R1.but(shaping=()), rows)
    holds = max(plain[:3]) < 0 < max(bent[:3]) and gap(bent, group_relative(shaped(TEMPSAMP_R1, rows))) < 1e-9
    return Finding(holds, f"the last is the expert's: {lines(rewards=rewards, plain=plain, reshaped=bent)}")


def event(question: int) -> tuple[int, int]:
    return (5 * question + 3, 5 * question + 5)


# When does it happen in a long sequence? Two tokens of 24: 576 answers, of which few overlap a short event.
GROUNDING = World(
    *(4, 24, 2, lambda question, answer: interval_iou((float(answer[0]), float(answer[1])), event(question))),
    text=lambda question, answer: f"<answer>{answer[0]} to {answer[1]}</answer>",
    metadata=lambda question: {"interval": event(question), "demonstration": event(question)},
)


@claim("an expert in the group learns faster in a large search space", slow=True)
def an_expert_in_the_group_learns_faster_in_a_large_search_space() -> Finding:
    # Groups of eight: eight samples, or seven and the annotation.
    alone = TEMPSAMP_R1.but(rollout=Independent(samples=8), shaping=())
    recipes = (TEMPSAMP_R1, alone.but(name="alone"), TEMPSAMP_R1.but(shaping=(), name="unbent"))
    taught, own, unbent = runs(GROUNDING, *recipes, steps=60, every=10).values()
    ours, plain, without = ([area(bench) for bench in side] for side in (taught, own, unbent))
    means = lines(mean_IoU_over_the_run=ours, on_policy_GRPO=plain, without_reshaping=without)
    ends, end = ([bench.success() for bench in side] for side in (taught, own))
    return Finding(min(ours) > max(plain) + 0.1, f"{means}, {lines(at_the_end=ends, of_GRPO=end)}")


claim.shipped(TEMPSAMP_R1, "rollout")
claim.shipped(TEMPSAMP_R1, "shaping")

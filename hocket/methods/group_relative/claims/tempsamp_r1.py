"""What tempsamp-r1 claims."""

from __future__ import annotations

import math
from typing import Any

import torch

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.graded_rewards import area, runs
from hocket.lab.toys.rewarded import advantages, apart, group_relative, line, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.temporal_r1 import interval_iou
from hocket.methods.group_relative.tempsamp_r1 import TEMPSAMP_R1, asymmetric_curve
from hocket.rollout.independent import Independent

claim = Claims("tempsamp-r1", "TempSamp-R1, arXiv:2509.18056; constants chosen here")


@claim("the curve is continuous, increasing, fixed at t and flatter above")
def curve_laws() -> Finding:
    """On a fine grid: continuous, increasing, fixed at the threshold, flatter above than below."""
    shape: Any = TEMPSAMP_R1.shaping[0]
    t, a, b = shape.threshold, shape.above, shape.below
    grid = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    value = asymmetric_curve(grid, t, a, b)
    slope = value.diff() / grid.diff()
    at = float(asymmetric_curve(torch.tensor([t], dtype=torch.float64), t, a, b))
    above, below = slope[grid[:-1] > t].max(), slope[0]
    wanted = [t + a * math.log1p(0.2), t - (math.exp(b * 0.5) - 1) / (math.exp(b) - 1)]
    found = asymmetric_curve(torch.tensor([t + 0.2, t - 0.5], dtype=torch.float64), t, a, b).tolist()
    return Finding(
        bool((slope > 0).all())
        and float(value.diff().max()) < 2e-5
        and at == t
        and float(above) < float(below)
        and apart(found, wanted) < 1e-12,
        f"least slope {float(slope.min()):.4f}, largest step {float(value.diff().max()):.1e}, value at t {at}, slope "
        f"above at most {float(above):.4f}, near r = 0 {float(below):.3f}",
    )


@claim("the best sample beside an expert keeps a positive advantage")
def best_sample_stays_positive() -> Finding:
    """Three samples and a perfect expert."""
    rewards = (0.65, 0.65, 0.4, 1.0)
    rows = [said("q", str(n), r, source="own" if n < 3 else "expert") for n, r in enumerate(rewards)]
    bent, plain = advantages(TEMPSAMP_R1, rows), advantages(TEMPSAMP_R1.but(shaping=()), rows)
    counted = group_relative(shaped(TEMPSAMP_R1, rows))
    return Finding(
        max(plain[:3]) < 0 < max(bent[:3]) and apart(bent, counted) < 1e-9,
        f"rewards {line(rewards)}, the last the expert's: advantages {line(plain)} plain, {line(bent)} reshaped",
    )


SECONDS = 24


def grounding() -> World:
    """When does it happen in a long sequence? Two tokens of 24: 576 answers, of which few overlap a short event."""

    def event(question: int) -> tuple[int, int]:
        return (5 * question + 3, 5 * question + 5)

    def text(question: int, answer: Answer) -> str:
        return f"<answer>{answer[0]} to {answer[1]}</answer>"

    return World(
        questions=4,
        tokens=SECONDS,
        horizon=2,
        reward=lambda question, answer: interval_iou((float(answer[0]), float(answer[1])), event(question)),
        text=text,
        metadata=lambda question: {"interval": event(question), "demonstration": event(question)},
    )


@claim("an expert in the group learns faster in a large search space", slow=True)
def experts_show_the_way() -> Finding:
    """Groups of eight: eight samples, or seven and the annotation."""
    world, steps = grounding(), 60
    alone = TEMPSAMP_R1.but(rollout=Independent(samples=8), shaping=())
    taught, own = runs(world, TEMPSAMP_R1, steps), runs(world, alone, steps)
    unbent = runs(world, TEMPSAMP_R1.but(shaping=()), steps)
    areas = [[area(bench) for bench in side] for side in (taught, own, unbent)]
    return Finding(
        min(areas[0]) > max(areas[1]) + 0.1,
        f"mean IoU over the run {line(areas[0])} against on-policy GRPO {line(areas[1])} (the expert without "
        f"reshaping {line(areas[2])}); at the end {line([bench.success() for bench in taught])} against "
        f"{line([bench.success() for bench in own])}",
    )

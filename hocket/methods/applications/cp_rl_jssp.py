"""A learnt dispatching rule for job shops whose state is a solver's: RL on constraint programming (arXiv:2306.05747).

The environment is a model of the job shop whose time windows are propagated after every decision; what is seen are
these windows, and what may be chosen is what they leave. A network learns which operation comes next. It is trained on
small instances and schedules larger ones, for the pointer's weights depend on no size.

The world is `shop:6x6` of `hocket.zoo.joint.shop`, with earliest starts along jobs and machines where the paper's
solver propagates more. The paper names an off-the-shelf learner supported by a solver's solutions: `record_solved`
writes the decisions of CP-SAT's schedules as data for `--recipe bc`, from whose policy RLOO goes on. Both are recipes
of the library, so the row is none:

    hocket train --task shop:6x6 --recipe bc --store.data solved.npz --store.length 36 --steps 1 --run solved
    hocket train --task shop:6x6 --recipe rloo --model runs/solved
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.batch import Level
from hocket.rollout.recorded_rows import write_rows
from hocket.types import Scenario, Score, Trajectory, Turn
from hocket.zoo.joint.shop import Shop
from hocket.zoo.joint.shop_oracles import solved_starts

Numbers = NDArray[Any]


def record_solved(world: Shop, seeds: Sequence[int], file: Path) -> int:
    """Writes the decisions by which CP-SAT's schedules of these shops come about; returns how many.

    Of the jobs that are allowed the one is chosen whose next operation begins first in the solver's schedule.

    Raises:
        ConfigurationError: without ortools, or when the file cannot be written.
    """
    tables = [world.drawn(seed) for seed in seeds]
    planned = np.array([solved_starts(machines.tolist(), durations.tolist()) for machines, durations in tables])
    shop, live = world.open(len(tables)), np.ones(len(tables), bool)
    shop.reset(range(len(tables)), seeds)
    observed, chosen, paid = [shop.seen()[0]], [], []
    while live.any():
        place = np.minimum(shop.done, world.machines - 1)[..., None]
        start = np.take_along_axis(planned, place, 2)[..., 0]
        chosen.append(np.where(shop.allowed()[0], start, np.inf).argmin(1))
        moved = shop.step([chosen[-1]], live)
        paid.append(moved.rewards[:, 0])
        live = live & ~moved.terminated[:, 0]
        observed.append(shop.seen()[0])
    rows = zip(seeds, np.stack(observed, 1), np.stack(chosen, 1), np.stack(paid, 1), strict=True)
    return write_rows(file, [_episode(*row) for row in rows])


def _episode(seed: int, seen: Numbers, chosen: Numbers, paid: Numbers) -> Trajectory:
    """What was seen before each of L decisions and at the end, `[L + 1, O]`, the decisions and their rewards, `[L]`."""
    turn = Turn("scheduler", "policy", seen[:-1], chosen)
    reward = Score(paid.tolist(), Level.DECISION)
    return Trajectory(Scenario(f"{seed}"), [turn], scores={"reward": reward}, terminated=True, final_state=seen[-1])


CP_RL_JSSP = Analysis(
    name="cp-rl-jssp",
    title="An End-to-End Reinforcement Learning Approach for Job-Shop Scheduling Problems Based on Constraint "
    "Programming",
    where="docs/applications.md",
    kind="application",
)

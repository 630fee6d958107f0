"""Joint steps a second: native spread beside mpe2's, and path finding, interleaved, on one core.

    python benchmarks/joint.py [--copies 64] [--rounds 5]

Every round times each side once, observations included; printed are the medians and the spread over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from hocket.core.worlds import JointWorld
from hocket.zoo.joint.particles import Spread
from hocket.zoo.joint.paths import LifelongPaths

SECONDS = 1.0
"""Of one timing."""


def native(world: JointWorld, copies: int) -> Callable[[], float]:
    """What times a world: joint steps of all copies a second."""
    course, rng, live = world.open(copies), np.random.default_rng(0), np.ones(copies, bool)
    course.reset(range(copies), range(copies))
    moves = rng.integers(0, 5, (64, len(world.agents), copies))

    def run() -> float:
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            course.step(list(moves[steps % 64]), live)
            course.seen()
            steps += 1
        return steps * copies / (time.perf_counter() - start)

    return run


def upstream() -> float:
    """Joint steps a second of mpe2's parallel environment."""
    from mpe2 import simple_spread_v3

    course, rng, steps = simple_spread_v3.parallel_env(), np.random.default_rng(0), 0
    course.reset(seed=0)
    start = time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        if not course.agents:
            course.reset()
        course.step({agent: int(rng.integers(5)) for agent in course.agents})
        steps += 1
    return steps / (time.perf_counter() - start)


def main() -> None:
    """Times all sides and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    paths = LifelongPaths(size=16, count=16)
    sides = {"spread": native(Spread(), options.copies), "mpe2": upstream, "paths": native(paths, options.copies)}
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            found[name].append(side())
    for name, rates in found.items():
        agents = paths.count if name == "paths" else 3
        middle = statistics.median(rates)
        said = (
            f"{middle:12,.0f} joint steps/s ({min(rates):,.0f} to {max(rates):,.0f}), {middle * agents:,.0f} by agents"
        )
        print(f"{name:8s}{said}")
    ratios = [ours / theirs for ours, theirs in zip(found["spread"], found["mpe2"], strict=True)]
    print(f"spread is {statistics.median(ratios):.0f} times mpe2 ({min(ratios):.0f} to {max(ratios):.0f})")


if __name__ == "__main__":
    main()

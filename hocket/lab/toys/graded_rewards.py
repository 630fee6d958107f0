"""Toys of several claims: graded rewards."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.toys.rewarded import SEEDS
from hocket.lab.world import World
from hocket.recipe import Recipe


def runs(world: World, recipe: Recipe, steps: int, *, every: int = 10, **setting: Any) -> list[Bench]:
    """Five runs, one per seed."""
    return [Bench(world, recipe, seed=seed, steps=steps, **setting).run(steps, every=every) for seed in SEEDS]


def area(bench: Bench) -> float:
    """The mean success rate over a run's readings: high for one that learnt early."""
    return fmean([one.success for one in bench.readings])

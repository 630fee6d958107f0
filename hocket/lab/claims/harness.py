"""What claims are written with: random batches, gaps between numbers, runs over seeds, figures in words.

claim = Claims("gmpo", "arXiv:2507.20673")

@claim("At the old policy its gradient is GRPO's.", "derived")
def at_the_old_policy_it_is_grpo() -> Finding:
    return same_gradient(GMPO, GRPO, gap=0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hocket.core.batch import Batch
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Check, Claims
from hocket.lab.claims.comparisons import EXACT, batches, below, cases, gap, gradient, same_gradient, say
from hocket.lab.claims.finding import Finding
from hocket.lab.microscope import inspect
from hocket.lab.stale import run_stale
from hocket.lab.world import World
from hocket.recipe import Recipe
from hocket.stages import Policy

__all__ = [
    "EXACT",
    "SEEDS",
    "Check",
    "Claims",
    "Finding",
    "batches",
    "below",
    "cases",
    "each",
    "gap",
    "gradient",
    "inspect_rows",
]
__all__ += ["runs", "same_gradient", "say"]

SEEDS = range(5)


def inspect_rows(recipe: Recipe, rows: Sequence[Mapping[str, Any]], **state: Any) -> dict[str, Any]:
    """What a recipe makes of recorded trajectories; `state` is the document's."""
    document = {"version": 1, "trajectories": [dict(row) for row in rows]}
    return inspect(recipe, {**document, "state": state} if state else document)


def runs(
    world: World,
    *recipes: Recipe,
    steps: int,
    lag: int = 0,
    every: int = 5,
    seeds: Iterable[int] = SEEDS,
    after: Callable[[str], Callable[[Policy, Batch], None]] | None = None,
    **bench: Any,
) -> dict[str, list[Bench]]:
    """Each recipe trained on `world`, a run per seed, from samples `lag` steps old; by the recipes' names.

    `after(name)` watches the runs of a recipe, as in `run_stale`; `bench` are settings of `Bench`.
    """
    made: dict[str, list[Bench]] = {}
    for recipe in recipes:
        for seed in seeds:
            run = Bench(world, recipe, seed=seed, steps=steps, **bench)
            watch = None if after is None else after(recipe.name)
            made.setdefault(recipe.name, []).append(run_stale(run, steps, lag=lag, every=every, after=watch))
    return made


def each(of: Mapping[str, Sequence[Bench]], measure: Callable[[Bench], float]) -> dict[str, list[float]]:
    """A figure of every run, by the recipes' names."""
    return {name: [measure(run) for run in group] for name, group in of.items()}

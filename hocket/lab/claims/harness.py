"""What claims are written with: random batches, gaps between numbers, runs over seeds, figures in words.

claim = Claims("gmpo", "arXiv:2507.20673")

@claim("At the old policy its gradient is GRPO's.", "derived")
def _() -> Finding:
    return same_gradient(GMPO, GRPO, gap=0.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.bandit import flat
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Check, Claims
from hocket.lab.claims.finding import Finding
from hocket.lab.documents import random_document
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

EXACT, SEEDS = 1e-12, range(5)


def batches(count: int, *names: str | int, **settings: Any) -> Iterator[dict[str, Any]]:
    """Random recorded batches, the same at every call with equal arguments; `settings` as of `random_document`."""
    key = Key.of(0).derive("checks", *names)
    return (random_document(key.derive("document", number), **settings) for number in range(count))


def inspect_rows(recipe: Recipe, rows: Sequence[Mapping[str, Any]], **state: Any) -> dict[str, Any]:
    """What a recipe makes of recorded trajectories; `state` is the document's."""
    document = {"version": 1, "trajectories": [dict(row) for row in rows]}
    return inspect(recipe, {**document, "state": state} if state else document)


def gradient(recipe: Recipe, batch: Mapping[str, Any]) -> Tensor:
    """d loss / d logp of every decision of a recorded batch, `[T]`."""
    return flat(inspect(recipe, batch))


def gap(left: Any, right: Any) -> float:
    """The largest absolute difference between numbers, nested lists of numbers (also of unequal lengths) or tensors.

    Raises:
        ValueError: where a difference is not a number, which `max` over several might hide.
    """
    if isinstance(left, (list, tuple)):
        return max((gap(one, other) for one, other in zip(left, right, strict=True)), default=0.0)
    one, other = (torch.as_tensor(side, dtype=torch.float64).detach() for side in (left, right))
    found = float((one - other).abs().max()) if one.numel() else 0.0
    if math.isnan(found):
        raise ValueError("a difference is not a number")
    return found


def below(limit: float, *also: bool, **figures: float) -> Finding:
    """Holds when all `figures` are below `limit`, and `also`."""
    return Finding(all(value < limit for value in figures.values()) and all(also), say(**figures))


def cases(rows: Iterable[Any], predicate: Callable[..., bool]) -> Finding:
    """Holds when `predicate` is true of every case; names the first that fails. A tuple is passed as arguments."""
    count, failed = 0, list[Any]()
    for row in rows:
        count += 1
        if not (predicate(*row) if isinstance(row, tuple) else predicate(row)):
            failed.append(row)
    shown = f"{count} cases" if not failed else f"{len(failed)} of {count} cases fail, the first is {failed[0]!r}"
    return Finding(count > 0 and not failed, shown)


def same_gradient(left: Recipe, right: Recipe, count: int = 20, *names: str | int, **settings: Any) -> Finding:
    """Two recipes have equal gradients on random batches."""
    gaps = (gap(gradient(left, one), gradient(right, one)) for one in batches(count, *names, **settings))
    return below(EXACT, largest_difference_of_gradients=max(gaps))


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
            one = Bench(world, recipe, seed=seed, steps=steps, **bench)
            watch = None if after is None else after(recipe.name)
            made.setdefault(recipe.name, []).append(run_stale(one, steps, lag=lag, every=every, after=watch))
    return made


def each(of: Mapping[str, Sequence[Bench]], measure: Callable[[Bench], float]) -> dict[str, list[float]]:
    """A figure of every run, by the recipes' names."""
    return {name: [measure(one) for one in group] for name, group in of.items()}


def say(**figures: Any) -> str:
    """Figures in a line; several values as lowest/mean/highest."""
    return ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in figures.items())


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return f"{min(value):.3f}/{fmean(value):.3f}/{max(value):.3f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""Toys of several claims: many objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.documents import random_document
from hocket.lab.world import World
from hocket.recipe import Recipe

SEEDS = range(5)


def scored_document(seed: int, names: Sequence[str], scales: Sequence[float] = ()) -> dict[str, Any]:
    """A random batch with uniform scores of these names, times their scales."""
    document = random_document(Key.of(seed).derive("objectives"))
    rng = Key.of(seed).derive("scores").numpy()
    for row in document["trajectories"]:
        drawn = rng.random(len(names))
        row["scores"] = {n: float(x) * s for n, x, s in zip(names, drawn, scales or [1.0] * len(names), strict=True)}
    return document


def trained(world: World, recipe: Recipe, seed: int, steps: int, **settings: Any) -> Bench:
    """A bench after `steps`."""
    return Bench(world, recipe, seed, **settings).run(steps, every=steps)


def span(values: Sequence[float]) -> str:
    """The least and the largest."""
    return f"{min(values):.2f} to {max(values):.2f}"

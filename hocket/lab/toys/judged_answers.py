"""Toys of several claims: judged answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.world import World
from hocket.recipe import Recipe

SEEDS = range(5)


def trained(world: World, recipe: Recipe, seed: int, steps: int, **settings: Any) -> Bench:
    """A bench after `steps`."""
    return Bench(world, recipe, seed, **settings).run(steps, every=steps)


def span(values: Sequence[float]) -> str:
    """The least and the largest."""
    return f"{min(values):.2f} to {max(values):.2f}"

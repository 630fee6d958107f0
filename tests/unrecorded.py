"""Recipes that recorded batches of words cannot serve."""

from __future__ import annotations

from hocket.recipe import Recipe
from hocket.types import Quantity

IN_WORLDS: frozenset[str] = frozenset({"ami", "follower", "pdppo", "prism-3d-pbrl"})
"""They read what only a world of control tells: what was seen there, a path, a state before chance, a seat."""


def recordable(name: str, recipe: Recipe) -> bool:
    """Whether a batch of recorded log-probs holds all that a recipe reads: no worlds, whole distributions or scores."""
    return name not in IN_WORLDS and Quantity.KL_EXACT not in recipe.needs and not recipe.outputs

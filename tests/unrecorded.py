"""Recipes that recorded batches of words cannot serve."""

from __future__ import annotations

from hocket.methods.base.self_distillation import PRIVILEGED
from hocket.methods.marl.sc2le.chain import Chained
from hocket.recipe import Recipe
from hocket.rewards.look_weights import LookWeights
from hocket.types import COMPARED, Quantity

IN_WORLDS: frozenset[str] = frozenset({"ami", "follower", "langtime", "mats-lp", "pdppo", "prism-3d-pbrl"})
"""They read what only a world of control tells: what was seen there, or comes, a path, states before chance, a seat."""


def recordable(name: str, recipe: Recipe) -> bool:
    """Whether recorded log-probs hold all that a recipe reads: no worlds, beliefs, whole distributions or scores."""
    if Chained() in recipe.policy_parts:  # Actions have parts.
        return False
    if name == "vppo":  # Its weights come from pictures that are looked at once more.
        return False
    if name in ("parrot", "rpo-lambda-harmonic"):  # They compare by two scores, beside their sum.
        return False
    if any(isinstance(one, LookWeights) for one in recipe.shaping):  # Its rollout makes these weights.
        return False
    if PRIVILEGED in recipe.reads:  # A prompt that recorded batches do not hold.
        return False
    if recipe.store is not None:  # Their losses read rows of a store.
        return False
    return name not in IN_WORLDS and not recipe.needs & {*COMPARED, Quantity.BELIEF} and not recipe.outputs

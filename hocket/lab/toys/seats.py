"""Toys of several claims: seats."""

from __future__ import annotations

import functools

from hocket.environments.openspiel import OpenSpiel
from hocket.workflows.environment import PlayEnvironment

ENDS = ("pp", "bp", "bb", "pbp", "pbb")


def payoff(cards: tuple[int, int], moves: str) -> int:
    """What the first seat wins."""
    if moves == "bp":
        return 1
    if moves == "pbp":
        return -1
    return (2 if moves.endswith("bb") else 1) * (1 if cards[0] > cards[1] else -1)


@functools.cache
def kuhn_poker() -> PlayEnvironment:
    """The game; open_spiel is needed only when it is played."""
    return PlayEnvironment(OpenSpiel("kuhn_poker"), own_chance=True, instruct=False)

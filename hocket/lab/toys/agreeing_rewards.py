"""Toys of several claims: agreeing rewards."""

from __future__ import annotations

from hocket.lab.world import World

TREES = ("alder", "birch", "cedar", "maple", "quartz", "slate", "flint", "jasper")


def four_right() -> World:
    """Two questions with four right answers of eight."""
    return World(
        questions=2,
        tokens=8,
        horizon=1,
        reward=lambda question, answer: float((answer[0] + 4 * question) % 8 < 4),
        text=lambda question, answer: TREES[answer[0]],
    )

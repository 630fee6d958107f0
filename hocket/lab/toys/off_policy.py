"""Toys of several claims: off policy."""

from __future__ import annotations

from hocket.lab.world import World

RIGHT = {(0, 1), (0, 2), (1, 0), (2, 0)}


TANGLED = World(
    # Token 0 is the better choice at either place, but not at both: what old samples favour token by token is wrong.
    questions=1,
    tokens=3,
    horizon=2,
    context="position",
    reward=lambda question, answer: float(answer in RIGHT),
)

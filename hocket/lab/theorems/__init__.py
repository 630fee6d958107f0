"""What papers prove, or what was derived here, as statements that are searched for a counter-example.

A theorem measures how far it is violated on a random case drawn from a key; 0 up to rounding means that it holds there.
A published claim that fails is kept with `fails`: its statement says what holds instead, its `counter` the case.
"""

from __future__ import annotations

from hocket.lab.theorems import credit, divergences, objectives, turns
from hocket.lab.theorems.theorem import Theorem

THEOREMS: tuple[Theorem, ...] = (
    *credit.THEOREMS,
    *objectives.THEOREMS,
    *divergences.THEOREMS,
    *turns.THEOREMS,
)

__all__ = ["THEOREMS", "Theorem"]

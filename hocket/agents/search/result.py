"""What a search asks, and what it brings back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hocket.types import Trajectory

Opinion = Callable[[Sequence[Trajectory]], Awaitable[Sequence[float]]]
"""How good episodes are, whole ones or such as were put aside after some message."""


@dataclass(frozen=True)
class SearchResult:
    """The episode that a search chose, and how many messages it sampled for it."""

    episode: Trajectory
    messages: int

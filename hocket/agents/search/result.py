"""The inputs and the result of a search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hocket.types import Trajectory

Opinion = Callable[[Sequence[Trajectory]], Awaitable[Sequence[float]]]
"""The values of episodes, ended or set aside after a message."""


@dataclass(frozen=True)
class SearchResult:
    """The episode that a search chose, and the number of messages that it sampled."""

    episode: Trajectory
    messages: int

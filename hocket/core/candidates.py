"""What rollouts and workflows agree on where an episode branches: how many answers are drawn, and which is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TURN_REWARD = "mixed"
"""The name of the score that holds what candidates earned, at the level of turns."""


@dataclass(frozen=True)
class Branching:
    """How many answers are drawn where a workflow asks for candidates, and which one the episode goes on with.

    An option of an `Assignment`.

    Attributes:
        candidates: answers to each such question. take: the `best` by its mixed reward, or the `first`.
        alpha: weight of the reward called `team` in the mixed one, beside the agent's own.
    """

    candidates: int = 1
    take: Literal["best", "first"] = "best"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise ValueError(f"candidates must be at least 1, not {self.candidates}")
        if self.take not in ("best", "first"):
            raise ValueError(f"take must be 'best' or 'first', not {self.take!r}")

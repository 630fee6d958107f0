"""How many turns an episode may have: few at first, more later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hocket.stages import Hook
from hocket.types import Assignment


@dataclass(frozen=True)
class TurnHorizon(Hook):
    """At most `turns[0]` turns per episode up to step `until[0]`, then `turns[1]` up to `until[1]`, and so on.

    ScalingInter-RL (arXiv 2509.08755). It depends on the step alone. A turn is one call of an agent, whichever agent's;
    the run's own limits hold besides. An episode of control is one turn.

    Attributes:
        turns: one more than `until`; a single one is a fixed horizon.
        until: the last steps (from 1) of all horizons but the last, rising.
    """

    turns: tuple[int, ...] = (10, 20, 30)
    until: tuple[int, ...] = (100, 200)

    def __post_init__(self) -> None:
        if len(self.turns) != len(self.until) + 1:
            raise ValueError(f"{len(self.until)} steps in until need {len(self.until) + 1} turns, not {self.turns}")
        if min(self.turns) < 1:
            raise ValueError(f"turns must be at least 1, not {self.turns}")
        if any(left >= right for left, right in pairwise((0, *self.until))):
            raise ValueError(f"until must be at least 1 and rise, not {self.until}")

    def at(self, step: int) -> int:
        """The most turns of an episode at `step` (from 1)."""
        return self.turns[sum(step > last for last in self.until)]

    def assign(self, assignment: Assignment, step: int) -> Assignment:
        return replace(assignment, turns=self.at(step))

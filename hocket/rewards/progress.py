"""A reward that is known only after others have learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.rewards.deferred import DeferredReward
from hocket.stages import State


@dataclass(frozen=True)
class LearningProgress(DeferredReward):
    """`r = scale (accuracy after - accuracy before)`, for `policy` alone: what its turns taught the others.

    CPMobius (arXiv 2602.02979, and the authors' code): the Coach is paid for its whole batch with what the Player
    gained on labelled problems held out, here the first `problems` of the task's `eval` split, answered greedily. While
    trajectories are scored it has no opinion; it is settled once the others have learnt, and `policy` learns
    then. With a reward of exactly 0 `policy` does not learn in that step.

    Attributes:
        policy: whose turns are paid. problems: measured on, at every step. scale: of the change.
        momentum: the running mean of the progress of earlier steps is taken off (a step counts this much less than the
            next one), so that less progress than usual is bad; the first step only sets it. None, as in the paper,
            takes nothing off.
    """

    policy: str = "coach"
    problems: int = 40
    scale: float = 100.0
    momentum: float | None = None
    name: str = "progress"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.problems < 1:
            raise ValueError(f"problems must be at least 1, not {self.problems}")
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1) or be null, not {self.momentum}")

    def settled(self, before: float, after: float, state: State) -> tuple[float | None, State]:
        """The reward of a step, None for none, and the memory of the running mean (empty at first)."""
        gained = self.scale * (after - before)
        if self.momentum is None:
            return gained or None, state
        total, weight = state.get("sum", 0.0), state.get("weight", 0.0)
        reward = gained - total / weight if weight else 0.0
        keep, add = self.momentum, 1 - self.momentum
        return reward or None, {"sum": keep * total + add * gained, "weight": keep * weight + add}

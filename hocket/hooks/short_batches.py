"""Updates within an episode, every few decisions."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hocket.core import sums
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.stages import Hook, HookContext, Player
from hocket.types import Assignment, Trajectory

COUNTS = frozenset({"update/gradients", "update/skipped"})
"""Metrics of an update that are added up over a step; of the others the mean is reported."""


@runtime_checkable
class PlaysPieces(Protocol):
    """A player that hands episodes over in pieces: `hocket.rollout.pieces.PiecewisePlayer`."""

    def pieces(
        self, assignments: Sequence[Assignment], *, key: Key, length: int, width: int
    ) -> Generator[list[Trajectory], None, list[Trajectory]]: ...


@dataclass(frozen=True)
class ShortBatches(Hook):
    """Learns every `length` decisions of `width` environments that are played side by side, as A3C and A2C do.

    A step plays its episodes from beginning to end; where one ends the next one begins. After every `length` decisions
    of each environment, the policy is updated once from just these; what follows is played with the new weights, so
    every update is on policy. The value of the state in which a piece ends is bootstrapped. Metrics of updates are
    means over the step.

    It acts for one controller without memory that its environment rewards, in one process. Elsewhere (text, several
    agents, worlds on a device, recurrent networks, rewards that judge whole episodes) a step is one update from whole
    episodes.

    Attributes:
        length: decisions of an environment per update; None updates once per step from whole episodes.
        width: environments that are played side by side.

    Raises:
        ConfigurationError: before the first step, when the run overlaps sampling and updates.
    """

    length: int | None = 5
    width: int = 8

    def __post_init__(self) -> None:
        if (self.length is not None and self.length < 1) or self.width < 1:
            raise ValueError(f"length must be at least 1 or null and width at least 1, not {self.length}, {self.width}")

    def acts(self, run: HookContext) -> bool:
        """Whether it acts in this run."""
        carries = any(getattr(policy, "carries", 0) for policy in run.trained.values())
        return self.length is not None and isinstance(run.player, PlaysPieces) and not carries and not run.weights

    def check(self, run: HookContext) -> None:
        if self.acts(run):
            super().check(run)

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        if self.length is None or not isinstance(player, PlaysPieces) or not self.acts(run):
            return player
        return _Learning(player, self.length, self.width, run, step, memory)

    def withheld(self, run: HookContext) -> frozenset[str]:
        return frozenset(run.trained) if self.acts(run) else frozenset()

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        """Adds the metrics of the step's updates."""
        reports = memory.get("reports", [])
        for name in {name: None for report in reports for name in report}:
            values = [value for report in reports if math.isfinite(value := report.get(name, math.nan))]
            if values:
                result.metrics[name] = sum(values) if name in COUNTS else sums.mean(values)
        return {}


@dataclass(frozen=True)
class _Learning:
    """A player that updates the policies in training between the pieces of its episodes."""

    player: PlaysPieces
    length: int
    width: int
    run: HookContext
    step: int
    memory: dict[str, Any]

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, whole."""
        pieces = self.player.pieces(assignments, key=key, length=self.length, width=self.width)
        reports = self.memory.setdefault("reports", [])
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                trajectories: list[Trajectory] = end.value
                return trajectories
            usable = [trajectory for trajectory in piece if trajectory.failure is None]
            for policy in self.run.trained if usable else ():
                result = StepResult({}, [], None)
                updates = key.derive("update", policy, len(reports))
                self.run.learn(result, usable, policy, step=self.step, key=updates)
                reports.append(result.metrics)

"""The evaluations of a run: when they are due, and messages about them."""

from __future__ import annotations

from collections.abc import Callable

from hocket.core.columns import LIMIT
from hocket.core.errors import HocketError
from hocket.stages import Metrics
from hocket.train.evaluate import EvaluationResult
from hocket.train.progress import Progress
from hocket.train.settings import Config

FEW = 50
"""Fewer unseen problems than this are worth a warning."""


class Evaluations:
    """Greedy success on unseen scenarios before, during and after training.

    Args:
        config: of the run. progress: is kept up to date. say: tells who watches.
    """

    def __init__(self, config: Config, progress: Progress, say: Callable[[str], None]) -> None:
        self._settings, self._total = config.evaluation, config.total_steps
        self._progress, self._say = progress, say

    def due(self, step: int) -> bool:
        """Whether there is one after `step`."""
        every = self._settings.every
        return step == self._total or (every > 0 and step % every == 0)

    def size(self, step: int) -> int:
        """How many scenarios it asks: fewer on the way than at the ends."""
        return self._settings.n if step in (0, self._total) else self._settings.between

    def record(self, step: int, result: EvaluationResult) -> Metrics:
        """Takes in the evaluation after `step`; returns its metrics.

        Raises:
            HocketError: when, before training, every episode failed or ended early.
        """
        if step == 0:
            _check_possible(result)
        self._progress.evaluated(result, step, last=step == self._total)
        if step == 0:
            self._warn(result)
        return {**result.metrics(), "time/evaluate": result.seconds}

    def _warn(self, result: EvaluationResult) -> None:
        """What a person should know before training starts."""
        if result.measure.share and result.n < FEW:
            self._say(f"only {result.n} {result.measure.each} to measure on: differences of some ten points are noise")
        cut = [LIMIT.get(played) for played in result.trajectories if LIMIT.present(played)]
        if cut and len(cut) == len(result.trajectories):
            self._say(f"all {len(cut)} episodes before training were cut short: {cut[0]}")


def _check_possible(result: EvaluationResult) -> None:
    """Refuses to train where every episode failed or ended early.

    Raises:
        HocketError: with the first one's reason.
    """
    played = result.trajectories
    # Greedy denoising has an outcome and no decision.
    if any((attempt.length or attempt.final_state is not None) and attempt.failure is None for attempt in played):
        return
    reasons = [trajectory.failure or LIMIT.get(trajectory) for trajectory in played]
    reason = next((reason for reason in reasons if reason), "no decision was made in any of them")
    raise HocketError(f"all {len(played)} episodes before training failed or ended early: {reason}")

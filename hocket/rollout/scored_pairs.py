"""Recorded pairs that the run's rewards judge as well: what they say of the two is the pair's strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.keys import Key
from hocket.rollout.demonstrations import Preferences
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class ScoredPreferences(Preferences):
    """`Preferences`, with the scores of the run's rewards beside `preference`, which says who is the chosen one.

    With `--reward model:A+B+C` these are the mean over reward models. `hocket.rewards.strength` reads them.
    """

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario the chosen trajectory, then the rejected one, judged."""
        experience = await super().collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
        await score(experience.trajectories)
        return experience

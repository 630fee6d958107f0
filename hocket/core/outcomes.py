"""What a training step brought: its experience, what was learnt from, and who earned how much."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from hocket.core.batch import Batch, Level
from hocket.types import Experience, Trajectory


@dataclass
class StepResult:
    """What a step did: metrics in the run's names, and the experience with its credited batch, for reports.

    Attributes:
        trajectories: learnt from. discarded: the others. batch: credited, None where there was nothing to learn from.
        experience: as it was collected. messages: notices for a person.
    """

    metrics: dict[str, float]
    trajectories: list[Trajectory]
    batch: Batch | None = field(repr=False)  # asyncio.run takes its result's repr at the end, and a batch's is long.
    discarded: list[Trajectory] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    experience: Experience | None = None


SAMPLED = ("own", "helped", "baseline", "branch")
"""Sources of trajectories that the policies sampled."""


def all_trajectories(experience: Experience) -> list[Trajectory]:
    """What a step collected: what is learnt from, then what was discarded."""
    return experience.trajectories + experience.discarded


def usable(trajectory: Trajectory) -> bool:
    """Whether there is something to learn from: no failure, some decision, and some reward with an opinion."""
    if trajectory.failure is not None or not trajectory.length:
        return False
    return not trajectory.scores or any(score.value is not None for score in trajectory.scores.values())


def total_reward(trajectory: Trajectory, weights: Mapping[str, float]) -> float:
    """The weighted sum of all scores, before shaping; NaN when no score has an opinion."""
    earned = []
    for name, score in trajectory.scores.items():
        values = [score.value] if score.level is Level.TRAJECTORY else list(score.value)  # type: ignore[arg-type]
        earned += [weights.get(name, 1.0) * float(value) for value in values if value is not None]  # type: ignore[arg-type]
    return sum(earned) if earned else math.nan


def earned_by_role(trajectory: Trajectory, weights: Mapping[str, float]) -> dict[str, float]:
    """The weighted rewards of the turns of each role that acted and was judged, summed.

    In joint play they are those of its decisions.
    """
    earned: dict[str, float] = defaultdict(float)
    joint = any(turn.end is not None for turn in trajectory.turns)
    for name, score in trajectory.scores.items():
        if joint and score.level is Level.DECISION and score.value is not None:
            start, rewards = 0, cast(Sequence[float | None], score.value)
            for turn in trajectory.turns:
                total = sum(float(value or 0.0) for value in rewards[start : start + len(turn)])
                earned[turn.role or turn.agent] += weights.get(name, 1.0) * total
                start += len(turn)
        if score.level is not Level.TURN or score.value is None:
            continue
        for turn, value in zip(trajectory.turns, cast(Sequence[float | None], score.value), strict=True):
            earned[turn.role or turn.agent] += weights.get(name, 1.0) * float(value or 0.0)
    return dict(earned)

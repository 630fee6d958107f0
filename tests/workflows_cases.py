"""What rehearsed workflows earned."""

from __future__ import annotations

from hocket.core.batch import Level
from hocket.types import Trajectory


def earned(played: Trajectory, name: str) -> list[float | None]:
    score = played.scores[name]
    assert score.level is Level.TURN
    return list(score.value)  # type: ignore[arg-type]

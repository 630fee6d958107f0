"""The trajectories of a player, grouped by assignment."""

from __future__ import annotations

from collections.abc import Sequence

from hocket.core.errors import HocketError
from hocket.stages import Play
from hocket.types import Assignment, Trajectory


async def groups(play: Play, asked: Sequence[Assignment]) -> list[list[Trajectory]]:
    """The trajectories of each assignment, as many as its `samples`; without assignments nothing is played.

    Raises:
        HocketError: when the player returns more or fewer.
    """
    played = await play(asked) if asked else []
    wanted = sum(assignment.samples for assignment in asked)
    if len(played) != wanted:
        raise HocketError(
            f"the rollout asked for {wanted} trajectories and the player returned {len(played)}; a player returns a "
            "failed attempt with its failure"
        )
    following = iter(played)
    return [[next(following) for _ in range(assignment.samples)] for assignment in asked]

"""What a player gives back is split by what was asked, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hocket.core.errors import HocketError
from hocket.rollout.groups import groups
from hocket.types import Assignment, Scenario, Trajectory

ASKED = [Assignment(Scenario(name), samples=samples) for name, samples in (("a", 2), ("b", 0), ("c", 1))]


def played(asked: Sequence[Assignment]) -> list[Trajectory]:
    return [Trajectory(one.scenario, [], number) for one in asked for number in range(one.samples)]


def test_each_assignment_has_its_own() -> None:
    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        return played(asked)

    found = asyncio.run(groups(play, ASKED))
    assert [[(one.scenario.id, one.sample) for one in group] for group in found] == [
        [("a", 0), ("a", 1)],
        [],
        [("c", 0)],
    ]


def test_nothing_is_played_where_nothing_is_asked() -> None:
    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        raise AssertionError("it was played")

    assert asyncio.run(groups(play, [])) == []


@pytest.mark.parametrize("off", [-1, 1])
def test_more_or_fewer_are_refused(off: int) -> None:
    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        found = played(asked)
        return found[:off] if off < 0 else [*found, found[0]]

    with pytest.raises(HocketError, match=f"asked for 3 trajectories and the player returned {3 + off}"):
        asyncio.run(groups(play, ASKED))

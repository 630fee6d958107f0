"""Answers that fail in a search of TOA."""

from __future__ import annotations

from collections.abc import Sequence

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.methods.search.claims.toa import Table, certain, drawn, scored
from hocket.methods.search.toa.method import SeatSearch
from hocket.methods.search.toa.seats import worth
from hocket.train.aio import run_async
from hocket.train.loop import Playing
from hocket.types import Assignment, Scenario, Trajectory


def test_an_answer_that_failed_is_not_in_the_tree() -> None:
    table, asked = Table(drawn), [Assignment(Scenario("q", "q"), first=5)]
    playing, numbers = Playing(table.player, Key.of(0)), list[int]()

    async def lossy(asking: Sequence[Assignment]) -> list[Trajectory]:
        played = await playing(asking)
        numbers.extend(one.first for one in asking)
        for one, asks in zip(played, asking, strict=True):
            one.failure = "lost" if asks.first % 4 == 0 else None
        return played

    async def lost(asking: Sequence[Assignment]) -> list[Trajectory]:
        return [Trajectory(one.scenario, [], failure="down") for one in asking]

    both = [*asked, Assignment(Scenario("r", "r"), first=6)]
    trees = run_async(SeatSearch(calls=8)(both, play=lossy, score=scored))
    left = [sum(1 for node in tree.root.below() if node.episodes) for tree in trees]
    replays = numbers == [first + call for call in range(8) for first in (5, 6)]
    try:
        said = str(run_async(SeatSearch(calls=3)(asked, play=lost, score=scored)))
    except HocketError as error:
        said = str(error)
    counts = [tree.calls for tree in trees] == [8, 8] and left == [6, 6]
    assert counts
    assert replays
    assert said.endswith("failed: down")


def test_a_search_ends_with_its_calls_or_tokens() -> None:
    table = Table(certain(3))
    together = table.trees(SeatSearch(calls=20), ["a", "b"])
    apart = [table.trees(SeatSearch(calls=20), [one])[0] for one in ("a", "b")]
    same = [[worth(n) for n in one.root.below() if n.episodes] for one in together] == [
        [worth(n) for n in one.root.below() if n.episodes] for one in apart
    ]
    each = together[0].tokens / 20
    (cut,) = table.trees(SeatSearch(calls=20, tokens=int(6.5 * each)), ["a"])
    asked = len(table.said)
    (one,) = table.trees(SeatSearch(calls=5), ["a"])
    exact = cut.calls == 7 and one.calls == 5 and len(table.said) - asked == 5
    assert same
    assert exact

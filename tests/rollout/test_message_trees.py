"""Trees of messages: what is grafted, what a search takes, and rollouts that take turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_cases import talk_bench

from hocket.core.components import from_plain, to_plain
from hocket.core.markup import edit_distance
from hocket.methods.teams.masprm.method import MessageSearch
from hocket.methods.teams.optima import DialogueTree
from hocket.rollout.alternating import AlternatingRollout
from hocket.rollout.independent import Independent
from hocket.rollout.message_search import UCT
from hocket.rollout.message_tree import MessageNode, grafted
from hocket.types import Turn

LAW = settings(max_examples=60, deadline=None, derandomize=True)


def slow_distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        last = row
        row = [i]
        for j, right in enumerate(other, start=1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (left != right)))
    return row[-1]


@LAW
@given(st.text("abé😀", max_size=8), st.text("abé😀", max_size=8))
def test_edit_distance(one: str, other: str) -> None:
    assert edit_distance(one, other) == slow_distance(one, other) == edit_distance(other, one)


def test_uct_takes_the_largest_bound() -> None:
    node = MessageNode()
    kids = [node.add(Turn("a", "p", np.zeros(1, np.int64), np.array([n]))) for n in range(3)]
    for _ in range(3):
        kids[0].back_up(0.5)
    kids[1].back_up(0.4)
    assert UCT(c=0.0).chosen(node) is kids[0]
    # sqrt(ln 4) = 1.18: 0.5 + 0.68 c against 0.4 + 1.18 c, and 1.18 c for the unvisited one, as if visited once.
    assert UCT(c=0.1).chosen(node) is kids[0]
    assert UCT(c=1.0).chosen(node) is kids[1]
    assert UCT(c=None).chosen(node) is kids[2]


def test_grafting_keeps_the_chain_of_each_conversation() -> None:
    found = talk_bench()
    root = MessageNode()
    for one in found.play(30):
        if one.scenario.id == "one":
            grafted(root, one)
    for node in root.below():
        for one in node.episodes:
            assert one.turns == list(node.path)
            assert all(turn.parent is None or turn.parent in one.turns for turn in one.turns)


def test_rollouts_take_turns() -> None:
    first, second = Independent(samples=2), DialogueTree()
    both = AlternatingRollout((first, second), every=3)
    assert [both.at(step) for step in range(1, 8)] == [first] * 3 + [second] * 3 + [first]
    assert not both.plays_reference
    assert AlternatingRollout((first, MessageSearch())).plays_reference
    assert from_plain(to_plain(both)) == both


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: DialogueTree(expansions=0), "at least 1"),
        (lambda: DialogueTree(expansions=1, children=1), "two episodes"),
        (lambda: DialogueTree(alike=1.5), "alike"),
        (lambda: UCT(candidates=0), "candidates"),
        (lambda: MessageSearch(searches=0), "searches"),
        (lambda: AlternatingRollout(()), "members"),
    ],
)
def test_bad_settings_are_refused(make: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()  # type: ignore[operator]

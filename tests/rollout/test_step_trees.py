"""What trees of episodes share: numbers, what is gone on from, and where episodes end."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.columns import LIMIT
from hocket.core.errors import HocketError
from hocket.rollout.message_tree import StepTree
from hocket.types import PAUSED, Assignment, Scenario, Trajectory, Turn

ASKING = Assignment(Scenario("s", "s"), samples=9, first=5)


def turn(text: str) -> Turn:
    return Turn("a", "p", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)


def test_further_episodes_are_numbered_in_the_order_in_which_they_are_asked_for() -> None:
    tree = StepTree(ASKING)
    node = tree.root.add(turn("x")).add(turn("y"))
    asked = [tree.further(3), tree.onward(node), tree.onward(tree.root, samples=2, more=1), tree.further()]
    assert [(one.first, one.samples) for one in asked] == [(5, 3), (8, 1), (9, 2), (11, 1)]
    assert tree.calls == 7
    assert asked[0].replay is None is asked[3].replay
    begun, anew = asked[1].replay, asked[2].replay
    assert begun is not None
    assert anew is not None
    assert (begun.turns, begun.sample, begun.more) == (node.path, 5, None)
    assert (anew.turns, anew.sample, anew.more) == ((), 5, 1)


def test_an_episode_ends_below_what_it_went_on_from_also_where_it_says_the_same() -> None:
    tree, shared = StepTree(ASKING), turn("x")
    first = tree.add(Trajectory(ASKING.scenario, [shared, turn("y")]), tree.root)
    (node,) = tree.root.children
    assert node.turn is shared
    assert first.nodes == [tree.root, node, first]
    second = tree.add(Trajectory(ASKING.scenario, [shared, turn("y")]), node)
    aside = Trajectory(ASKING.scenario, [shared, turn("z")])
    LIMIT.write(aside, PAUSED)
    third = tree.add(aside, node)
    assert node.children == [first, second, third]
    assert tree.root.ends == [first, second]
    assert third.aside is aside
    assert list(tree.root.below()) == [tree.root, node, first, second, third]


@pytest.mark.parametrize(("said", "failure"), [((), None), (("x", "y"), None), (("x",), "lost")])
def test_a_search_takes_one_message_at_a_time(said: tuple[str, ...], failure: str | None) -> None:
    tree = StepTree(ASKING)
    episode = Trajectory(ASKING.scenario, [turn(one) for one in said], failure=failure)
    with pytest.raises(HocketError, match=failure or "message by message"):
        tree.step(episode, tree.root)
    assert tree.root.children == []

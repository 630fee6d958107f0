"""GroupBy: partitions as values."""

from __future__ import annotations

import pytest
import torch
from data_model_cases import trajectory, tree, turn, two_agents

from hocket.core.batch import GroupBy, Level, trajectory_of_turn
from hocket.core.components import from_plain, to_plain
from hocket.core.packing import pack


def test_trajectory_columns_give_groups_of_trajectories():
    rows = [("b", "own"), ("a", "own"), ("b", "baseline"), ("a", "own")]
    batch = pack([trajectory(s, [turn([1])], source=source) for s, source in rows])
    groups = GroupBy("scenario")(batch)
    assert (groups.level, groups.index.tolist(), groups.size) == (Level.TRAJECTORY, [0, 1, 0, 1], 2)
    assert GroupBy("scenario", "source")(batch).index.tolist() == [0, 1, 2, 1]
    whole = GroupBy()(batch)
    assert (whole.index.tolist(), whole.size) == ([0] * 4, 1)
    cut = batch.but(truncated=torch.tensor([True, False, False, True]))
    assert GroupBy("truncated")(cut).index.tolist() == [0, 1, 1, 0]


def test_what_was_recorded_of_trajectories_is_a_column():
    made = [trajectory("s", [turn([n])]) for n in range(4)]
    for one, value in zip(made, (2, "2", 2, None), strict=True):
        one.info |= {} if value is None else {"tree": value}
    batch = pack(made)
    assert GroupBy("scenario", "info/tree")(batch).index.tolist() == [0, 1, 0, 2]
    assert GroupBy("agent", "info/tree")(batch).index.tolist() == [0, 1, 0, 2]
    assert GroupBy("info/none")(batch).size == 1
    assert from_plain(to_plain(GroupBy("info/tree"))) == GroupBy("info/tree")


def test_turn_columns_give_groups_of_turns():
    batch = pack([two_agents(), two_agents()])
    groups = GroupBy("scenario", "agent", "turn_index")(batch)
    assert (groups.level, groups.size) == (Level.TURN, 4)
    assert groups.index.tolist() == [0, 1, 2, 3] * 2
    assert GroupBy("agent")(batch).index.tolist() == [0, 1] * 4
    assert GroupBy("role")(batch).size == 2


def test_named_states_meet_across_trajectories_and_unnamed_ones_never():
    rows = [[turn([1], state="x"), turn([2], state="y")], [turn([3], state="y"), turn([4])], [turn([5])]]
    batch = pack([trajectory("s", path) for path in rows])
    assert GroupBy("scenario", "state")(batch).index.tolist() == [0, 1, 1, 2, 3]
    apart = pack([trajectory(i, path) for i, path in enumerate(rows)])
    assert GroupBy("scenario", "state")(apart).size == 5


def test_a_shared_turn_takes_the_columns_of_the_first_trajectory():
    trajectories, _ = tree()
    batch = pack(trajectories)
    assert trajectory_of_turn(batch).tolist() == [0, 0, 0, 1, 2]
    assert GroupBy("scenario", "turn_index")(batch).index.tolist() == [0, 1, 2, 2, 1]


def test_groupings_are_values():
    assert GroupBy("scenario", "state") == GroupBy("scenario", "state") != GroupBy("scenario")
    assert len({GroupBy("scenario"), GroupBy("scenario")}) == 1
    assert from_plain(to_plain(GroupBy("scenario", "agent"))) == GroupBy("scenario", "agent")
    assert from_plain(to_plain(GroupBy())) == GroupBy()
    with pytest.raises(ValueError, match="uid"):
        GroupBy("uid")

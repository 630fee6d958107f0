"""Households and mazes as tasks: settings, plays and their named parts."""

from __future__ import annotations

import pytest

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.signals import REWARD
from hocket.tasks import find
from hocket.testing import rehearse
from hocket.zoo.household import Households, plan
from hocket.zoo.maze import DIRECTIONS, Mazes
from hocket.zoo.tasks.household import HouseholdTask
from hocket.zoo.tasks.maze import MazeTask


def test_a_plan_wins_an_errand_turn_by_turn() -> None:
    task = find("household?size=2&dense=0.5")
    assert isinstance(task, HouseholdTask)
    world = task.workflow.world
    assert isinstance(world, Households)
    scenario = task.scenario("train", 0)
    steps = plan(world.house(Key.of(scenario.metadata["house"])))
    (played,) = rehearse(task.workflow, scenario, list(steps))
    assert len(played.turns) == len(steps) == scenario.metadata["shortest"]
    assert task.success(played) == 1.0
    assert played.terminated
    assert played.scores["reward"].level is Level.TURN
    assert played.scores["reward"].value == [0.0] * (len(steps) - 1) + [1.0]
    found = played.scores["found"].value
    assert isinstance(found, list)
    assert sum(value or 0.0 for value in found) == 0.5
    assert found.index(0.5) == next(n for n, step in enumerate(steps) if step.startswith("take"))
    assert len({turn.state for turn in played.turns}) == len(steps)
    assert "found" not in REWARD.values()


def test_each_turn_is_a_conversation_of_its_own_unless_told_otherwise() -> None:
    for memory in (False, True):
        task = find(f"household?brief=false&memory={str(memory).lower()}")
        scenario = task.scenario("train", 1)
        (played,) = rehearse(task.workflow, scenario, ["wait"] * 30)  # type: ignore[attr-defined]
        assert played.truncated
        assert len(played.turns) == 30
        assert (len(played.turns[-1].prompt) > 1) == memory
        assert "Nothing happens." in played.turns[-1].prompt[-1]["content"]
        assert task.success(played) == 0.0
        assert task.describe(played)["illegal"] == 1.0


def test_long_episodes_are_not_cut_by_the_usual_limit() -> None:
    task = find("maze?steps=80&width=3&height=3")
    assert isinstance(task, MazeTask)
    flow = task.workflow
    (played,) = rehearse(flow, task.scenario("train", 0), ["?"] * 80, limits=flow.limits)
    assert len(played.turns) == 80
    assert played.info["limit"] == "the environment cut the episode short"


def test_mazes_too_small_for_two_splits_are_refused() -> None:
    task = find("maze?width=2&height=2&loops=1")
    with pytest.raises(ConfigurationError, match="too few mazes of 2 x 2 cells for the train split; make them larger"):
        task.scenario("train", 0)


def test_a_shortest_way_wins_a_maze() -> None:
    task = find("maze?width=4&height=4&reading=whole")
    assert isinstance(task, MazeTask)
    world = task.workflow.world
    assert isinstance(world, Mazes)
    for number in range(5):
        scenario = task.scenario("eval", number)
        layout = world.layout(Key.of(scenario.metadata["maze"]))
        cell, words = layout.start, []
        while cell != layout.goal:
            nearer = [n for n in layout.open(cell) if layout.distances[layout.ways[cell][n]] < layout.distances[cell]]
            words.append(DIRECTIONS[nearer[0]])
            cell = layout.ways[cell][nearer[0]]
        (played,) = rehearse(task.workflow, scenario, words)
        assert task.success(played) == 1.0
        assert len(played.turns) == scenario.metadata["shortest"] == len(words)
        assert played.turns[0].state == str(layout.start)


@pytest.mark.parametrize(
    "name", ["household?size=4", "household?rooms=1", "maze?width=1", "maze?reading=loud", "maze?slip=1"]
)
def test_wrong_settings_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        find(name)

"""Mazes that two see half of each, the talk about them, and the gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket import tasks
from hocket.agents.workflows.library import find
from hocket.core.errors import ConfigurationError
from hocket.methods.teams.collaboration_gap.task import CollaborationGap, SplitMaze, SplitMazes, maze_of, posed
from hocket.methods.teams.collaboration_gap.workflow import SplitMap, agrees, route_in
from hocket.testing import Part, rehearse
from hocket.types import Trajectory

LAW = settings(max_examples=40, deadline=None, derandomize=True)
TASK = SplitMazes(width=4, height=3, least=3, most=6)
# S..     the first sees the first row, the second the rest
# #.#
# ..G
WALLS = (False, False, False, True, False, True, False, False, False)
MAZE = SplitMaze(3, WALLS, 0, 8, (frozenset({3, 4, 5, 6, 7}), frozenset({1, 2})))
BEST = "<answer>east, south, south, east</answer>"


@LAW
@given(st.integers(0, 10_000), st.sampled_from(["train", "eval"]))
def test_a_scenario_hides_each_cell_from_one_agent(number: int, split: str) -> None:
    scenario = TASK.scenario(split, number)  # type: ignore[arg-type]
    maze, (first, second) = maze_of(scenario), scenario.metadata["halves"]
    ends = {maze.start, maze.goal}
    assert maze.hidden[0] | maze.hidden[1] == set(range(12)) - ends
    assert not maze.hidden[0] & maze.hidden[1]
    assert abs(len(maze.hidden[0]) - len(maze.hidden[1])) <= 1
    assert (first.count("?"), second.count("?")) == (len(maze.hidden[0]), len(maze.hidden[1]))
    together = "".join(a if a != "?" else b for a, b in zip(first, second, strict=True))
    assert together == scenario.metadata["map"]
    route = maze.shortest()
    assert route is not None
    assert 3 <= len(route) <= 6
    assert TASK.verify(f"<answer>{scenario.answer}</answer>", scenario) == 1.0
    assert TASK.scenario(split, number) == scenario  # type: ignore[arg-type]


def test_grades_by_hand() -> None:
    assert MAZE.shortest() == ("east", "south", "south", "east")
    for route, grade in (
        ("east south south east", 1.0),
        ("east south south east north", 1.0),
        ("east south", 0.5),
        ("east south west south east", 0.5),
        ("south", 0.0),
        ("", 0.0),
        ("east east", 0.0),
        ("north east south south east", 0.0),
        ("east south south west", 0.5),
    ):
        assert MAZE.grade(route.split()) == grade, route


def test_a_maze_without_a_route_grades_everything_zero() -> None:
    closed = replace(MAZE, walls=(False, True, False, True, False, True, False, False, False))
    assert closed.shortest() is None
    assert closed.grade(["east", "south", "south", "east"]) == 0.0


def test_moves_are_read_from_tags_or_from_moves_alone() -> None:
    assert route_in("so <answer>East, down</answer> ok <answer>up</answer>") == ("north",)
    assert route_in("right, right -> down") == ("east", "east", "south")
    assert route_in("go east") is None
    assert route_in("<answer></answer>") is None
    assert agrees("Yes, agreed!")
    assert not agrees("we don't agree")
    assert not agrees("I can not really agree")
    assert not agrees("disagreed")
    assert not agrees("I agree: <answer>east</answer>")


def talk(flow: SplitMap, **said: Sequence[str]) -> Trajectory:
    parts = {role: Part(*said[role]) for role in flow.roles}
    (played,) = rehearse(flow, posed(MAZE, "one"), parts, verifier=TASK.verify)
    assert played.failure is None
    return played


def test_a_pair_is_paid_for_the_route_it_agrees_on() -> None:
    played = talk(SplitMap(), alice=["open row", BEST], bob=[BEST])
    assert [turn.role for turn in played.turns] == ["alice", "bob", "alice"]
    assert played.scores["task"].value == 1.0
    assert played.answer == BEST
    assert played.info["agreed"] is True
    first, second, third = (str([message["content"] for message in turn.prompt]) for turn in played.turns)
    assert "S..\\n???\\n??G" in first
    assert "S??\\n#.#\\n..G" in second
    assert "Alice: open row" in second
    assert "Bob: <answer>" in third
    assert played.turns[2].parent is played.turns[0]
    assert TASK.describe(played) == {"way": 1.0, "agreed": 1.0, "messages": 3.0}
    assert TASK.label(played) == "east south south east"


def test_without_agreement_there_is_no_answer() -> None:
    played = talk(SplitMap(messages=4), alice=[BEST, BEST], bob=["<answer>south</answer>"] * 2)
    assert len(played.turns) == 4
    assert played.scores["task"].value == 0.0
    assert played.info == {**played.info, "agreed": False, "messages": 4}
    assert TASK.success(played) == 0.0


def test_an_opener_speaks_for_both_and_hands_over_the_dialogue() -> None:
    played = talk(SplitMap(relay=3), opener=["one", "two", "three"], bob=[BEST], alice=["agreed"])
    assert [turn.role for turn in played.turns] == ["opener"] * 3 + ["bob", "alice"]
    assert [message["role"] for message in played.turns[3].prompt] == ["system", "user", "assistant", "user"]
    assert played.turns[3].prompt[2]["content"] == "two"
    assert [message["content"] for message in played.turns[4].prompt if message["role"] == "assistant"] == [
        "one",
        "three",
    ]
    assert played.turns[2].parent is played.turns[0]
    assert played.turns[3].parent is None
    assert played.scores["task"].value == 1.0


@pytest.mark.parametrize(("see", "shown"), [("merged", "Part 2:\nS??\n#.#\n..G"), ("whole", "S..\n#.#\n..G")])
def test_one_agent_alone_answers_in_the_same_form(see: str, shown: str) -> None:
    played = talk(SplitMap(see=see), policy=[BEST])  # type: ignore[arg-type]
    assert shown in str(played.turns[0].prompt[-1]["content"])
    assert played.scores["task"].value == 1.0
    assert talk(SplitMap(see=see), policy=["no idea"]).scores["task"].value == 0.0  # type: ignore[arg-type]


def test_the_gap_compares_the_same_mazes() -> None:
    found = CollaborationGap.of([1, 1, 1, 0], [1, 0, 0, 0])
    assert (found.solo, found.pair, found.gap) == (0.75, 0.25, 0.5)
    assert found.interval[0] < 0.5 < found.interval[1]
    for solo, pair in (([1.0], [1.0, 0.0]), ([], [])):
        with pytest.raises(ValueError, match="the same mazes"):
            CollaborationGap.of(solo, pair)


def test_names_and_settings() -> None:
    task = tasks.find("split-maze?width=4&height=4&relay=2&messages=8")
    assert isinstance(task, SplitMazes)
    assert task.workflow == SplitMap(relay=2, messages=8) == find("split-map?relay=2&messages=8")
    for name, message in (
        ("split-maze?width=1", "2 to 20 cells"),
        ("split-maze?see=nothing", "see must be"),
        ("split-maze?relay=11", "relay in 0 to messages"),
        ("split-maze?size=4", "no setting 'size'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            tasks.find(name)
    with pytest.raises(ConfigurationError, match="2000 mazes of 2 x 2 cells"):
        SplitMazes(width=2, height=2, least=5).scenario("train", 0)

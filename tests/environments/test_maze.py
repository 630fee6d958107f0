"""Mazes: layouts, moves, and exact values against enumeration and play."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.environments.solitary import PLAYER
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.tasks import find
from hocket.tasks.split import split_of
from hocket.zoo.maze import (
    DIRECTIONS,
    Layout,
    Maze,
    Mazes,
    draw_layout,
    optimal,
    transitions,
    uniform,
    values,
)

SIZES = st.integers(2, 6)
SEEDS = st.integers(0, 10**6)


def begun(world: Mazes, layout: Layout, seed: int = 0) -> Maze:
    made = Maze(world, layout)
    made.reset(Key.of(seed))
    return made


def corridor(length: int) -> Layout:
    """A straight way from west to east."""
    ways = tuple((cell, min(cell + 1, length - 1), cell, max(cell - 1, 0)) for cell in range(length))
    return Layout(length, 1, ways, 0, length - 1)


@settings(max_examples=60, deadline=None)
@given(SIZES, SIZES, st.integers(0, 5), SEEDS)
def test_layouts_are_connected_and_symmetric(width: int, height: int, loops: int, seed: int) -> None:
    layout = draw_layout(width, height, loops, Key.of(seed))
    assert layout == draw_layout(width, height, loops, Key.of(seed))
    edges = 0
    for cell, ways in enumerate(layout.ways):
        for number, to in enumerate(ways):
            if to != cell:
                edges += 1
                assert layout.ways[to][(number + 2) % 4] == cell
                assert abs(to - cell) in (1, width)
    most = width * (height - 1) + height * (width - 1)
    assert edges // 2 == min(width * height - 1 + loops, most)
    assert len(layout.distances) == width * height
    longest = max(draw_far(layout))
    assert min(3, longest) <= layout.shortest <= 30


def draw_far(layout: Layout) -> list[int]:
    """The distance between the ends of every pair of cells, by Floyd and Warshall."""
    count = layout.cells
    far = [[0 if a == b else 10**6 for b in range(count)] for a in range(count)]
    for cell, ways in enumerate(layout.ways):
        for to in ways:
            if to != cell:
                far[cell][to] = 1
    for k, a, b in itertools.product(range(count), repeat=3):
        far[a][b] = min(far[a][b], far[a][k] + far[k][b])
    assert [row[layout.goal] for row in far] == list(layout.distances)
    return [value for row in far for value in row]


def test_there_are_dead_ends_and_loops() -> None:
    layout = draw_layout(6, 6, 4, Key.of(0))
    assert any(len(layout.open(cell)) == 1 for cell in range(layout.cells))
    assert sum(len(layout.open(cell)) for cell in range(layout.cells)) // 2 == 35 + 4


# ---------------------------------------------------------------- playing


def test_what_is_told() -> None:
    played = begun(Mazes(3, 2), corridor(3))
    seen = played.observe(PLAYER)
    assert seen.text == ("You are at 0,0. You see: north wall, east open, south wall, west wall. The goal lies east.")
    assert seen.actions == ("east",)
    assert seen.state == "0"
    hidden = begun(Mazes(3, 2, compass=False, places=False), corridor(3)).observe(PLAYER)
    assert hidden.text == "You see: north wall, east open, south wall, west wall."


def test_walking_to_the_goal_and_into_walls() -> None:
    played = begun(Mazes(3, 2, steps=4), corridor(3))
    assert [played.act({PLAYER: said})[PLAYER] for said in ("east", "north", "East.")] == [0.0, 0.0, 1.0]
    assert played.over
    assert not played.truncated
    assert played.illegal == {PLAYER: 1}
    lost = begun(Mazes(3, 2, steps=2), corridor(3))
    for said in ("north", "up"):
        lost.act({PLAYER: said})
    assert lost.truncated


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_clone_draws_the_same_slips(seed: int) -> None:
    world = Mazes(4, 4, slip=0.5)
    played = begun(world, world.layout(Key.of(seed)), seed)
    for _ in range(3):
        if played.acting:
            played.act({PLAYER: (played.observe(PLAYER).actions or ("",))[0]})
    twin = played.clone()
    while played.acting:
        move = (played.observe(PLAYER).actions or ("",))[-1]
        assert played.act({PLAYER: move}) == twin.act({PLAYER: move})
        assert played.cell == twin.cell


# ---------------------------------------------------------------- values


def test_values_of_a_corridor_by_hand() -> None:
    layout = corridor(3)
    policy = np.zeros((3, 4))
    policy[:, 1], policy[:, 3] = 0.75, 0.25
    found = values(layout, policy, 3)
    # A move west from the first cell is a wall, and costs the move.
    one = np.array([0.0, 0.75])
    two = np.array([0.75 * one[1] + 0.25 * one[0], 0.75 + 0.25 * one[0]])
    three = np.array([0.75 * two[1] + 0.25 * two[0], 0.75 + 0.25 * two[0]])
    for left, expected in ((1, one), (2, two), (3, three)):
        assert found.state[left, :2] == pytest.approx(expected, abs=1e-12)
    assert found.action[3, 1] == pytest.approx([two[1], 1.0, two[1], two[0]], abs=1e-12)
    assert found.state[:, 2].tolist() == [0.0] * 4


def enumerated(layout: Layout, policy: np.ndarray, steps: int, slip: float, cell: int) -> float:
    """The expected reward by walking every path."""
    if cell == layout.goal or steps == 0:
        return 0.0
    chance, total = transitions(layout, slip), 0.0
    for action, to in itertools.product(range(4), range(layout.cells)):
        share = policy[cell, action] * chance[cell, action, to]
        if share:
            total += share * (1.0 if to == layout.goal else enumerated(layout, policy, steps - 1, slip, to))
    return total


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from((0.0, 0.3)))
def test_values_equal_enumeration(seed: int, slip: float) -> None:
    layout = draw_layout(3, 2, 1, Key.of(seed))
    policy = np.random.Generator(np.random.Philox(seed)).dirichlet(np.ones(4), layout.cells)
    found = values(layout, policy, 4, slip)
    for cell in range(layout.cells):
        assert found.state[4, cell] == pytest.approx(enumerated(layout, policy, 4, slip, cell), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.floats(0, 0.6))
def test_a_value_is_the_policys_mean_of_action_values(seed: int, slip: float) -> None:
    layout = draw_layout(4, 4, 2, Key.of(seed))
    policy = uniform(layout)
    found = values(layout, policy, 20, slip, discount=0.9)
    assert found.state == pytest.approx((policy * found.action).sum(-1), abs=1e-12)
    assert transitions(layout, slip).sum(-1) == pytest.approx(np.ones((16, 4)), abs=1e-12)
    best = optimal(layout, 20, slip, discount=0.9)
    assert (best.state >= found.state - 1e-12).all()


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_the_best_policy_walks_a_shortest_way(seed: int) -> None:
    layout = draw_layout(4, 4, 2, Key.of(seed))
    best = optimal(layout, 30, discount=0.9)
    for cell, far in enumerate(layout.distances):
        expected = 0.9 ** (far - 1) if far else 0.0
        assert best.state[30, cell] == pytest.approx(expected, abs=1e-12)


def test_values_of_a_policy_that_knows_the_time() -> None:
    layout = corridor(3)
    east = np.tile(np.eye(4)[1], (3, 1))
    west = np.tile(np.eye(4)[3], (3, 1))
    found = values(layout, lambda left: east if left < 3 else west, 3)
    assert found.state[3].tolist() == [1.0, 1.0, 0.0]
    assert found.state[2].tolist() == [1.0, 1.0, 0.0]
    assert values(layout, lambda left: west if left < 3 else east, 3).state[3].tolist() == [0.0, 1.0, 0.0]


def test_play_agrees_with_the_exact_value() -> None:
    world = Mazes(3, 3, loops=1, slip=0.2, steps=12)
    layout = world.layout(Key.of(5))
    exact = values(layout, uniform(layout), 12, 0.2).state[12, layout.start]
    count, wins = 3000, 0.0
    for seed in range(count):
        played = begun(world, layout, seed)
        rng = Key.of(seed).derive("walk").numpy()
        while played.acting:
            options = played.observe(PLAYER).actions or ()
            wins += played.act({PLAYER: options[int(rng.integers(len(options)))]})[PLAYER]
    spread = (exact * (1 - exact) / count) ** 0.5
    assert 0.05 < exact < 0.95
    assert abs(wins / count - exact) < 4 * spread


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"width": 1}, {"height": 21}, {"loops": -1}, {"slip": 1.0}, {"steps": 0}):
        with pytest.raises(ConfigurationError):
            Mazes(**wrong)


# ---------------------------------------------------------------- the task


def test_splits_are_apart_by_content() -> None:
    task, world = find("maze?width=4&height=3"), Mazes(4, 3)
    for split in ("train", "eval"):
        for number in range(20):
            scenario = task.scenario(split, number)
            layout = world.layout(Key.of(scenario.metadata["maze"]))
            assert split_of(layout.text) == split
            assert scenario.metadata["shortest"] == layout.shortest
    assert len(DIRECTIONS) == 4


def test_brief_mazes_are_told_in_letters_and_walked_alike() -> None:
    layout = draw_layout(4, 4, 3, Key.of(5))
    long, brief = begun(Mazes(4, 4), layout), begun(Mazes(4, 4, brief=True), layout)
    while not long.done:
        letters = [DIRECTIONS[way][0] for way in layout.open(long.cell)]
        seen = brief.observe(PLAYER)
        where, bearing = seen.text.split(": ")[0].split()
        assert seen.text.split(": ")[1] == "".join(letters)
        assert seen.actions is None
        assert where == f"{long.cell % 4},{long.cell // 4}"
        told = long.observe(PLAYER).text.split("lies ")[1].rstrip(".")
        assert bearing == "".join(word[0] for word in told.split("-"))
        best = min(layout.open(long.cell), key=lambda way: layout.distances[layout.ways[long.cell][way]])
        assert long.act({PLAYER: DIRECTIONS[best]}) == brief.act({PLAYER: DIRECTIONS[best][0]})
        assert long.cell == brief.cell
        assert long.over == brief.over
    assert " here: " in brief.observe(PLAYER).text


def test_a_brief_maze_takes_no_notice_of_an_illegal_move() -> None:
    maze = begun(Mazes(4, 1 + 1, brief=True), corridor(4))
    before = maze.observe(PLAYER)
    maze.act({PLAYER: "north"})
    assert maze.observe(PLAYER) == before
    assert maze.illegal == {PLAYER: 1}

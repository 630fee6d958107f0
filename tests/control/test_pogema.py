"""The package pogema where it is installed, and what a run tells of path finding."""

import asyncio
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.typing import NDArray

from hocket import tasks
from hocket.agents.environments.pogema import Pogema
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.claims.pogema import EAST, STAY, WEST, _cell, _played
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import collect
from hocket.zoo.joint.grids import distances
from hocket.zoo.joint.one_shot_paths import OneShotPaths
from hocket.zoo.joint.paths import LifelongPaths, PathCourse
from hocket.zoo.joint.walks import Walk


@pytest.mark.parametrize("name", ["mapf:once?agents=5&length=30", "mapf:lifelong?agents=5&length=30", "mapf:planned"])
def test_a_run_tells_what_was_paid(name):
    task = tasks.find(name)
    parts = build_parts(configure([("recipe", "ippo"), ("curriculum.prompts", 6)], task), task)
    for trajectory in asyncio.run(collect(parts, Key.of(1)))[0].trajectories:
        told, earned = task.describe(trajectory), task.success(trajectory)
        assert all(0 <= value <= 1 for value in told.values())
        if name.startswith("mapf:once"):
            assert told["arrived"] == pytest.approx(earned)
            assert told["solved"] == (earned == 1)
            assert told["cost"] <= told["makespan"]
        else:
            assert told["throughput"] * task.world.length == pytest.approx(earned)


def test_worlds_around_path_finding_tell_what_any_world_tells():
    task = tasks.find("mapf:once?attack=noise&budget=0.1&length=5")
    parts = build_parts(configure([("recipe", "ippo"), ("curriculum.prompts", 2)], task), task)
    told = task.describe(asyncio.run(collect(parts, Key.of(1)))[0].trajectories[0])
    assert set(told) == {"truncated"}


def test_a_wrong_name_is_refused():
    for name, why in (("pogema:twice", "choose from lifelong, once, together"), ("mapf:one", "mapf:")):
        with pytest.raises(ConfigurationError, match=why):
            tasks.find(name)


@pytest.mark.skipif(find_spec("pogema") is not None, reason="the package pogema is there")
def test_without_the_package_the_mend_is_told():
    with pytest.raises(ConfigurationError, match=r"hocket\[paths\]"):
        tasks.find("pogema:once")


def test_who_collides():
    goals, found = [[3, 3], [3, 0]], []
    for second, moves in (
        ([0, 1], [EAST, WEST]),
        ([0, 2], [EAST, WEST]),
        ([0, 1], [EAST, EAST]),
        ([0, 2], [WEST, STAY]),
    ):
        found.append(_played(OneShotPaths(4, 2, stay=True), [[0, 0], second], goals, [moves])[0].collisions())
    assert found == [2, 2, 0, 1]  # They swap, want one cell, follow, run into the edge.


def test_who_arrives_leaves_unless_it_stays():
    starts, goals, moves = [[0, 1], [0, 0]], [[0, 2], [0, 3]], [[EAST, EAST], [STAY, EAST], [STAY, EAST]]
    gone, paid = _played(OneShotPaths(4, 2), starts, goals, moves)
    waits, held = _played(OneShotPaths(4, 2, stay=True), starts, goals, moves)
    assert paid.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert (gone.costs().tolist(), gone.collisions()) == ([1, 3], 0)
    assert not held.any()
    assert (waits.place[-1].tolist(), waits.collisions()) == ([[0, 2], [0, 1]], 2)


# ---------------------------------------------------------------- with the package

SETTINGS = {"size": 8, "num_agents": 6, "density": 0.2, "obs_radius": 3, "collision_system": "soft"}


def _courses(module, count=6, **more):
    pytest.importorskip("pogema")
    world = Pogema(module, {**SETTINGS, **more})
    course = world.open(count)
    assert course.reset(range(count), range(count)) == {}
    return world, course, course._courses


def test_a_seed_is_an_instance_and_nobody_shares_a_cell():
    world, course, grids = _courses("lifelong")
    again = world.open(1)
    draw, moves = np.random.default_rng(0), []
    again.reset([0], [3])
    assert world.seats[0].shape == (3, 7, 7)
    assert world.seats[0].actions == 5
    for _ in range(40):
        moves.append([draw.integers(0, 5, 6) for _ in world.agents])
        course.step(moves[-1], np.ones(6, bool))
        again.step([one[3:4] for one in moves[-1]], np.ones(1, bool))
        for mine, other in zip(course.seen(), again.seen(), strict=True):
            np.testing.assert_array_equal(mine[3], other[0])
        for one in grids:
            cells = [tuple(cell) for cell in one.pogema.get_agents_xy()]
            assert len(set(cells)) == len(cells)


@pytest.mark.parametrize(("module", "stay"), [("once", False), ("together", True)])
def test_moves_and_pay_are_upstreams_wherever_no_two_want_one_cell(module, stay):
    """Of those who want one free cell upstream lets the first in, and here nobody; all else is the same."""
    world, course, grids = _courses(module, 40)
    ours, draw, compared, met = OneShotPaths(8, 6, stay=stay).open(1), np.random.default_rng(1), 0, 0
    live = np.ones(40, bool)
    for _ in range(30):
        moves = [draw.integers(0, 5, 40) for _ in world.agents]
        before = [[one.pogema.get_agents_xy(ignore_borders=True), dict(one.pogema.grid.is_active)] for one in grids]
        moved = course.step(moves, live)
        for slot in np.flatnonzero(live):
            (places, active), grid = before[slot], grids[slot].pogema.grid
            ours.free[0] = grid.get_obstacles(ignore_borders=True) == 0
            ours.place[0], ours.goal[0] = places, grid.get_targets_xy(ignore_borders=True)
            ours.present[0] = [active[number] for number in range(6)]
            wanted = ours.place[0] + np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])[[one[slot] for one in moves]]
            aims = [tuple(cell) for cell, on in zip(wanted.tolist(), ours.present[0], strict=True) if on]
            if len(set(aims)) < len(aims):
                met += 1
                continue
            mine = ours.step([one[slot : slot + 1] for one in moves], np.ones(1, bool))
            assert ours.place[0].tolist() == [list(cell) for cell in grid.get_agents_xy(ignore_borders=True)]
            np.testing.assert_array_equal(mine.rewards[0], moved.rewards[slot])
            compared += 1
        live &= ~(moved.terminated | moved.truncated).all(1)
    assert compared > 100
    assert met > 0


def test_indicators_are_upstreams():
    world, _, (grid, *_) = _courses("together", 1, num_agents=2, density=0.0, size=4, max_episode_steps=12)
    places, goals = [grid.pogema.get_agents_xy()], grid.pogema.get_targets_xy()
    draw, moves, told = np.random.default_rng(2), [], {}
    while not told:
        moves.append([int(one) for one in draw.integers(0, 5, 2)])
        infos = grid.step(dict(zip(world.agents, list(moves[-1]), strict=True)))[4]
        told = infos[world.agents[0]].get("metrics", {})
        places.append(grid.pogema.get_agents_xy())
    walk = Walk(np.array(places), np.repeat(np.array(goals)[None], len(places), 0), np.array(moves))
    assert (told["CSR"], told["ISR"], told["SoC"], told["makespan"]) == (
        float(walk.solved),
        walk.arrived,
        walk.sum_of_costs,
        walk.makespan,
    )


def test_nobody_shares_a_cell_with_one_goal_or_more():
    wrong, steps = 0, 0
    for world in (LifelongPaths(count=8), OneShotPaths(count=8), OneShotPaths(count=8, stay=True)):
        course, draw = world.open(100), np.random.default_rng(0)
        course.reset(range(100), range(100))
        for _ in range(world.length):
            before, present = course.place, course.present.copy()
            course.step([draw.integers(0, 5, 100) for _ in world.agents], np.ones(100, bool))
            wrong += _conflicts(course, before, present)
            steps += int(present.sum())
    assert wrong == 0
    assert steps > 100_000


def _conflicts(course: PathCourse, before: NDArray[np.int64], present: NDArray[np.bool_]) -> int:
    """Between those who were present in the last step."""
    same = (course.place[:, :, None] == course.place[:, None]).all(-1)
    swap = (course.place[:, :, None] == before[:, None]).all(-1)
    both = present[:, :, None] & present[:, None] & ~np.eye(present.shape[1], dtype=bool)
    copies = np.arange(len(present))[:, None]
    inside = course.free[copies, course.place[..., 0], course.place[..., 1]]
    return int((both & (same | (swap & swap.transpose(0, 2, 1)))).sum() + (present & ~inside).sum())


def test_a_seed_is_a_map_that_hangs_together():
    holds, longest = True, 0
    for world in (OneShotPaths(count=6), OneShotPaths(10, 12, density=0.3, stay=True)):
        wide, alone = world.open(20), world.open(1)
        wide.reset(range(20), range(20))
        for seed in range(20):
            alone.reset([0], [seed])
            for one, other in ((wide.free, alone.free), (wide.place, alone.place), (wide.goal, alone.goal)):
                holds &= np.array_equal(one[seed], other[0])
            ends = np.concatenate([alone.place[0], alone.goal[0]])
            holds &= len({tuple(cell) for cell in ends.tolist()}) == 2 * world.count
            steps = [
                distances(alone.free[0], _cell(goal))[_cell(place)]
                for place, goal in zip(*np.split(ends, 2), strict=True)
            ]
            holds &= min(steps) > 0
            longest = max(longest, int(max(steps)))
    assert holds
    assert longest > 10

"""Errands on a grid: where goals lie, what a move pays, and that tasks take turns."""

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.systems.l2rlcf.world import MOVES, Errands

TURNED = {"A": lambda x, y: (x, y), "B": lambda x, y: (-x, -y), "C": lambda x, y: (-y, x), "D": lambda x, y: (y, -x)}


def opened(world, seed):
    copy = world.open(1)
    copy.reset([0], [seed])
    return copy


@pytest.mark.parametrize("number", range(8))
def test_the_goal_is_the_mark_turned_and_the_way_there_pays_one(number):
    world = Errands("ABCD", length=20)
    copy = opened(world, 2 * number)
    x, y, mark_x, mark_y, *told = copy.seen()[0][0].tolist()
    assert told == [float(letter == "ABCD"[number % 4]) for letter in "ABCD"]
    goal = np.array(TURNED["ABCD"[number % 4]](mark_x, mark_y)) * 4
    place, earned, steps = np.array([x, y]) * 4, 0.0, 0
    while (place != goal).any():
        axis = int(place[0] == goal[0])
        move = next(n for n, way in enumerate(MOVES) if way[axis] == np.sign(goal - place)[axis])
        came = copy.step([np.array([move])], np.array([True]))
        place, earned, steps = copy.seen()[0][0][:2] * 4, earned + came.rewards[0, 0], steps + 1
        assert came.terminated[0, 0] == (place == goal).all()
        assert not came.truncated[0, 0]
    assert earned == pytest.approx(1.0)
    assert steps >= 1


def test_what_is_earned_is_the_share_of_the_way_and_walls_stand_still():
    cut, less = 0, 0
    for seed in range(0, 60, 2):
        copy = opened(Errands("A", length=6), seed)
        way, earned, done = int(copy.first[0]), 0.0, False
        for step in range(1, 7):
            came = copy.step([np.array([0])], np.array([True]))
            earned, done = earned + came.rewards[0, 0], bool(came.terminated[0, 0])
            assert came.truncated[0, 0] == (step == 6 and not done)
            if done:
                break
        left = np.abs(copy.place[0] - copy.goal[0]).sum() // 2
        assert done or copy.place[0, 1] == 4
        assert earned == pytest.approx((way - left) / way)
        cut, less = cut + (not done), less + (earned < 0)
    assert cut > 5
    assert less > 5


def test_tasks_take_turns_and_episodes_tell_of_which_they_are():
    task = tasks.find("errands:ACD")
    assert task.kinds == ("A", "C", "D")
    for split in ("train", "eval"):
        assert [task.scenario(split, n).metadata["kind"] for n in range(6)] == list("ACDACD")
    assert task.scenario("train", 3).seed != task.scenario("eval", 3).seed


@pytest.mark.parametrize(
    ("name", "why"),
    [("errands:", "name tasks by the letters"), ("errands:AA", "each once"), ("errands:AE", "A, B, C, D")],
)
def test_unknown_tasks_are_refused(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_a_grid_without_room_is_refused():
    with pytest.raises(ConfigurationError, match="size must be at least 3"):
        tasks.find("errands:AB?size=2")

"""Routes of discs in a plane."""

import json
from pathlib import Path

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.marl.camar.world import Routing


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("camar:maze", "write camar:routing"),
        ("camar:routing?agents=0", "at least 1"),
        ("camar:routing?density=1", r"density in \[0, 1\)"),
        ("camar:routing?accel=0", "a positive accel"),
        ("camar:routing?agents=9", "do not fit"),
        ("camar:routing?guide=true", "maps=8"),
        ("camar:routing?flicker=2", "row by row"),
    ],
)
def test_what_cannot_be_is_refused(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


@pytest.mark.parametrize("world", [Routing(), Routing(count=2, density=0.2, maps=2, guide=True)])
def test_an_episode_does_not_depend_on_what_is_played_beside_it(world):
    def played(slots, width):
        course = world.open(width)
        course.reset(slots, [7 + slot for slot in slots])
        found = []
        for step in range(10):
            moves = np.full((width, 2), np.float32(np.sin(step)))
            found.append(np.concatenate(course.seen(), 1)[3])
            found.append(course.step([moves] * world.count, np.ones(width, bool)).rewards[3])
        return np.concatenate(found)

    np.testing.assert_array_equal(played([3], 4), played(range(9), 9))


def test_all_on_their_goals_end_it_and_earn_a_whole():
    course = Routing(count=2, shaping=0.0).open(1)
    course.reset([0], [1])
    course.place[:] = course.goal
    moved = course.step([np.zeros((1, 2), np.float32)] * 2, np.ones(1, bool))
    assert moved.rewards.tolist() == [[1.0, 1.0]]
    assert moved.terminated.all()
    assert not moved.truncated.any()


def test_steps_are_those_that_the_package_made():
    """Places, pay and ways to the goal of an episode in which all three touch, recorded with camar 0.4.0."""
    made = json.loads((Path(__file__).parent / "recorded_routes.json").read_text())
    course = Routing(count=3, size=4, density=0.2).open(1)
    course.reset([0], [0])
    course.place[0], course.goal[0], course.discs[0] = made["place"], made["goal"], made["discs"]
    touched = 0
    for actions, places, rewards, aims in zip(
        made["actions"], made["places"], made["rewards"], made["aims"], strict=True
    ):
        moved = course.step([np.array([action]) for action in actions], np.ones(1, bool))
        np.testing.assert_allclose(course.place[0], places, rtol=0, atol=1e-12)
        np.testing.assert_allclose(moved.rewards[0], rewards, rtol=0, atol=1e-12)
        np.testing.assert_allclose(np.concatenate(course.seen())[:, :2], aims, rtol=0, atol=1e-6)
        touched += sum(reward < -0.5 for reward in rewards)
    assert touched > 10

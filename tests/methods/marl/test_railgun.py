"""Whole maps: who may be taught, weights on other maps, and what an episode states."""

import asyncio

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.claims.railgun import _parts
from hocket.methods.marl.railgun.planner import planned
from hocket.train.aio import run_async
from hocket.train.loop import train_step
from hocket.types import Assignment
from hocket.zoo.joint.grids import distances

TINY = "mapf:whole?size=6&agents=4&length=12"


def test_tasks_without_a_planner_are_refused():
    with pytest.raises(ConfigurationError, match="use mapf:whole"):
        _parts("mapf:lifelong?length=4")


def test_who_is_in_the_way_makes_way():
    free = np.ones((2, 3), bool)
    free[0, 0] = free[0, 2] = False
    place, goals = np.array([[1, 0], [1, 1]]), [(1, 2), (1, 1)]
    for seed in range(20):
        after = planned(place, [distances(free, goal) for goal in goals], np.random.default_rng(seed))
        assert after.tolist() in ([[1, 1], [0, 1]], [[1, 1], [1, 2]])


def test_weights_serve_maps_of_other_sizes_and_no_other_network(tmp_path):
    small = _parts(TINY, network__hidden=[4, 6]).lead.policy
    small.save(tmp_path)
    large = _parts("mapf:whole?size=9&agents=7", seed=1, network__hidden=[4, 6]).lead.policy
    large.load(tmp_path)
    for mine, other in zip(small.module.parameters(), large.module.parameters(), strict=True):
        assert mine.equal(other)
    with pytest.raises(ConfigurationError, match="hidden"):
        _parts(TINY, network__hidden=[4, 8]).lead.policy.load(tmp_path)
    with pytest.raises(ConfigurationError, match="a network of its own"):
        _parts(TINY, network__body="recurrent")


def test_an_episode_states_who_arrived_and_actor_critics_learn_there():
    parts = _parts(TINY, recipe="ppo", network__hidden=[4, 6], curriculum__prompts=2)
    task = tasks.find(TINY)
    world = task.world
    course = world.open(1)
    episode = asyncio.run(parts.player.play([_one(task)], key=Key.of(0)))[0]
    stated = task.describe(episode)
    course.reset([0], [episode.scenario.seed])
    for row in np.asarray(episode.turns[0].action):
        moved = course.step([row[None]], np.ones(1, bool))
    assert stated["solved"] == float(moved.terminated[0, 0]) == task.success(episode)
    assert stated["arrived"] == (course.place[0] == course.goal[0]).all(-1).mean()
    assert 0 <= stated["coordination"] <= 1
    result = run_async(train_step(parts, 1))
    assert np.isfinite(result.metrics["loss"])


def _one(task):
    return Assignment(task.scenario("eval", 3))

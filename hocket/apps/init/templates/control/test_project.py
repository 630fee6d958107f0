"""Run `pytest` in this folder."""

import numpy as np
from env import Dock
from gymnasium.utils.env_checker import check_env

from hocket import tasks


def test_it_is_an_environment() -> None:
    check_env(Dock(), skip_render_check=True)


def test_the_reward_is_largest_at_rest_at_the_goal() -> None:
    world = Dock()
    world.reset(seed=1)
    world.distance = world.speed = 0.0
    at_goal = world.step(1)[1]
    assert at_goal == 1.0
    assert world.step(2)[1] < at_goal


def test_episodes_depend_on_the_seed_alone() -> None:
    task = tasks.find("env.py:Dock?length=5")
    first, second = (task.make().reset(4) for _ in range(2))  # type: ignore[attr-defined]
    assert np.array_equal(first, second)

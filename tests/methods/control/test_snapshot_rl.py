"""Episodes that begin in snapshots: who teaches, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.base.ppo import PPO
from hocket.methods.control.snapshot_rl.method import SNAPSHOT_RL, Snapshots, clusters
from hocket.methods.control.snapshot_rl.world import LockedDoors
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext


def parts_of(task: str, recipe: Recipe = SNAPSHOT_RL, **settings: Any) -> RunContext:
    form = tasks.find(task)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", task), ("recipe", recipe), *more], form), form)


def test_a_trained_policy_teaches(tmp_path: Path) -> None:
    parts_of("recall:corridor", PPO, seed=3).lead.policy.save(tmp_path)
    parts = parts_of("recall:corridor", hooks__0__teacher=str(tmp_path))
    starts = run_async(Snapshots(teacher=str(tmp_path), episodes=3).before(parts, 1, {}))["starts"]
    assert len(starts.states) > 3
    assert starts.seen.shape == (len(starts.states), 3)


def test_a_world_without_a_teacher_asks_for_one() -> None:
    with pytest.raises(ConfigurationError, match=r"no teacher of its own.*hooks\.0\.teacher"):
        parts_of("recall:corridor")


def test_a_teacher_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"hooks\.0\.teacher = nowhere"):
        parts_of("doors:10", hooks__0__teacher="nowhere")


def test_a_gym_task_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is none; use doors:10"):
        parts_of("gym:CartPole-v1")


@pytest.mark.parametrize("name", ["doors:x", "doors:0", "doors:4?handles=1"])
def test_wrong_doors(name: str) -> None:
    with pytest.raises(ConfigurationError, match="doors"):
        tasks.find(name)


def test_a_share_is_one() -> None:
    with pytest.raises(ValueError, match="share in"):
        Snapshots(share=1.5)


def test_points_that_are_alike_are_one_cluster() -> None:
    assert set(clusters(np.ones((5, 2)), 3, np.random.default_rng(0)).tolist()) == {0}


def test_a_snapshot_is_a_door() -> None:
    course = cast(Any, LockedDoors(4).open(2))
    course.reset([0, 1], [0, 1])
    course.step([np.array([course.right[0], 5])], np.ones(2, bool))
    course.restore(1, course.snapshot(0))
    assert course.door.tolist() == [1, 1]

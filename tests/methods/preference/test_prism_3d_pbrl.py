"""Rewards learnt from preferences between segments: settings, and the scene."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hocket.core.errors import ConfigurationError
from hocket.methods.preference.prism_3d_pbrl import SCENE, Flight, LearntReward, SceneLabeller
from hocket.tasks import find


@pytest.mark.parametrize(
    "settings",
    [{"length": 0}, {"queries": 0}, {"hidden": 0}, {"fits": 0}, {"window": 100}, {"lr": 0.0}],
)
def test_settings_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="length, queries, hidden and fits"):
        LearntReward(**settings)  # type: ignore[arg-type]


def test_nobody_looks_back() -> None:
    with pytest.raises(ValueError, match="ahead must be at least 0"):
        SceneLabeller(ahead=-1)


def test_who_touches_the_trap_falls_later_wherever_they_are() -> None:
    world = Flight(SCENE)
    world.reset(0)
    world.trap, world.prize = np.array([0.2, 0.0, 0.0]), np.array([5.0, 0.0, 0.0])
    seen = [world.step(4)[1:] for _ in range(SCENE.delay + 1)]
    assert [fell for _, fell, _ in seen] == [False] * SCENE.delay + [True]
    assert seen[-1][0] < -SCENE.loss + 0.1
    assert np.linalg.norm(world.trap) > 1


def test_a_flight_ends_at_its_limit() -> None:
    world = Flight(SCENE)
    world.reset(1)
    assert [world.step(0)[3] for _ in range(SCENE.limit)] == [False] * (SCENE.limit - 1) + [True]


def test_a_fall_beyond_what_is_imagined_is_not_seen() -> None:
    still = torch.tensor([[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]])
    near, far = (SceneLabeller(ahead).worth(still) for ahead in (9, 10))
    assert float(near) > 0 > float(far)


def test_the_task_has_no_settings() -> None:
    assert find("point-trap").kind == "control"
    with pytest.raises(ConfigurationError):
        find("point-trap?size=2")

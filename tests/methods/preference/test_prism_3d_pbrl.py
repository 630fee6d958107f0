"""Rewards learnt from preferences between segments: settings, and the scene."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
import torch

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.preference.prism_3d_pbrl import SCENE, SIZE, Flight, LearntReward, PointTrap, Scene, SceneLabeller
from hocket.stages import Split
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


def test_a_scene_pays_by_both_distances() -> None:
    scene, off = Scene(plain=1.5, tempting=2.5, width=0.4), list[float]()
    for one, other in ((0.0, 1.0), (0.3, 0.5), (1.0, 0.2)):
        due = 1.5 * math.exp(-(one**2) / 0.16) + 2.5 * math.exp(-(other**2) / 0.16)
        off.append(abs(float(scene.pays(one, other)) - due))
    behind = list[float]()
    for seed in range(40):
        flight, draw = Flight(SCENE), Key.of(0).derive("point-trap", seed).numpy()
        flight.reset(seed)
        toward, aside = draw.normal(size=3), draw.normal(size=3)
        prize = toward / math.sqrt(float((toward**2).sum()))
        trap = 0.3 * aside - prize
        off.append(float(np.abs(flight.prize - prize).max()))
        off.append(float(np.abs(flight.trap - 0.7 * trap / math.sqrt(float((trap**2).sum()))).max()))
        behind.append(float(flight.prize @ flight.trap) / 0.7)
    task, splits = PointTrap(), tuple[Split, ...](("train", "eval"))
    seeds = [[task.scenario(split, n).seed for n in range(3)] for split in splits]
    assert seeds == [[0, 2, 4], [1, 3, 5]]
    assert fmean(behind) < -0.8
    assert max(off) < 1e-12


def test_the_scripted_labeller_refuses_other_observations() -> None:
    with pytest.raises(ConfigurationError, match="labeller"):
        SceneLabeller().worth(torch.zeros(2, 5, SIZE + 1))

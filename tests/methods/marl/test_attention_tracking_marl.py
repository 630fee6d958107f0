"""Pursuers and their targets."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.beliefs import believing
from hocket.methods.marl.attention_tracking_marl.method import ATTENTION_TRACKING
from hocket.methods.marl.attention_tracking_marl.tracking import Tracking
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import collect


def built(name, **settings):
    task = tasks.find(name)
    pairs = [("task", name), ("recipe", ATTENTION_TRACKING), ("seed", 0), *settings.items()]
    return build_parts(configure(pairs, task), task)


def test_weights_of_four_serve_twenty(tmp_path):
    few, many = (built(f"track:targets{ending}").lead.policy for ending in ("", "?agents=20&targets=20"))
    few.save(tmp_path)
    many.load(tmp_path)
    alike = zip(few.module.state_dict().values(), many.module.state_dict().values(), strict=True)
    assert all(bool((one == other).all()) for one, other in alike)
    sights = np.random.default_rng(0).normal(size=(5, 4 * 7)).astype(np.float32)
    _, logp = many.sample(np.tile(sights, 5), np.full((5, 1), 0.5), np.ones(5, np.float32))
    assert np.isfinite(logp).all()


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("track:targets?ids=true", {}),
        ("track:targets?sequenced=true", {}),
        ("track:targets", {"network.normalise": True}),
        ("track:targets", {"network.body": "sets"}),
    ],
)
def test_what_attention_over_rows_does_not_read_is_refused(task, settings):
    with pytest.raises(ConfigurationError, match="over their rows alone"):
        built(task, **settings)


@pytest.mark.parametrize(
    ("ending", "why"),
    [("targets?agents=0", "at least 1"), ("targets?pace=3", "pace in"), ("herd", "write track:targets")],
)
def test_a_world_that_cannot_be_is_refused(ending, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(f"track:{ending}")


def test_a_temperature_of_nothing_is_refused():
    with pytest.raises(ConfigurationError, match="temperature must be positive"):
        ATTENTION_TRACKING.but(**{"objective.values.temperature": 0.0})


def test_an_episode_tells_the_share_of_targets_that_somebody_observes():
    parts = believing(ATTENTION_TRACKING, "track:targets?length=6&side=14", curriculum__prompts=3)
    (batch, *_) = asyncio.run(collect(parts, Key.of(2)))
    for trajectory in batch.trajectories:
        course = parts.task.world.open(1)
        course.reset([0], [trajectory.scenario.seed])
        shares = []
        for time in range(6):
            course.step([turn.action[time : time + 1] for turn in trajectory.turns], np.ones(1, bool))
            shares.append(course.observed[0].any(0).mean())
        assert parts.task.describe(trajectory)["tracked"] == pytest.approx(np.mean(shares))


def test_targets_stay_in_the_field_and_pursuers_begin_together_when_asked():
    course = Tracking(side=12.0, pace=2.0, together=True).open(4)
    course.reset(range(4), range(4))
    assert (course.place == course.place[:, :1]).all()
    assert len(np.unique(course.heading)) == 16
    for _ in range(30):
        course.step([np.zeros(4, int)] * 4, np.ones(4, bool))
        assert max(np.abs(course.target).max(), np.abs(course.place).max()) <= 6
    assert (np.abs(course.speed) <= 2).all()

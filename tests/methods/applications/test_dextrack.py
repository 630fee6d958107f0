"""A controller that tracks references: what is refused, and what a step records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.dextrack.homotopy import played
from hocket.methods.applications.dextrack.method import DEXTRACK, Flywheel, greedy
from hocket.methods.applications.dextrack.world import LENGTH, Grip, reference
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step


def parts_of(task: str, **settings: Any) -> RunContext:
    form = tasks.find(task)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", task), ("recipe", DEXTRACK), *more], form), form)


def test_a_task_without_references_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="none; use --task grip"):
        parts_of("doors:10")


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"every": 0}, "every is at least 1"), ({"rounds": 4}, "at least 5"), ({"share": 2.0}, "0 to 1")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Flywheel(**settings)


@pytest.mark.parametrize("settings", ["references=0", "gravity=0", "gravity=2"])
def test_worlds_without_references_or_gravity_are_refused(settings: str) -> None:
    with pytest.raises(ConfigurationError, match=r"a share of gravity in \(0, 1\]"):
        tasks.find(f"grip?{settings}")


def test_a_step_records_searches_and_demonstrations() -> None:
    small = {"curriculum__prompts": 4, "hooks__0__tries": 2, "hooks__0__rounds": 5, "hooks__0__population": 2}
    metrics = run_async(train_step(parts_of("grip?references=3", **small), 1)).metrics
    assert metrics["flywheel/chains"] == 6.0
    assert metrics["flywheel/demonstrations"] == 0.0


def test_training_and_evaluation_share_no_reference() -> None:
    world = Grip(references=4)
    assert {world.number(seed) for seed in range(0, 100, 2)} == {0, 2, 4, 6}
    assert [world.number(seed) for seed in (1, 9, 101)] == [1, 9, 101]


def test_a_reference_knows_no_forces() -> None:
    """The fingers just touch the object, so without residual actions it stays on the table."""
    assert np.isclose(reference(1).path[LENGTH, 1], reference(1).thing[1])
    tracks = played(Grip(), np.arange(1, 9), np.zeros((8, LENGTH, 3)))
    assert not tracks.tracked.any()
    assert np.abs(tracks.observations[:, :, 3]).max() == 0


def test_a_greedy_controller_depends_on_what_it_observes_alone() -> None:
    act = greedy(parts_of("grip").player)  # type: ignore[arg-type]
    observations = played(Grip(), np.arange(3), np.zeros((3, LENGTH, 3))).observations[:, 0]
    assert np.allclose(act(observations)[1], act(observations[1:2])[0])

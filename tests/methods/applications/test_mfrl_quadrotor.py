"""Plans of flight that are paid by an estimate: what is refused, and what a run keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.mfrl_quadrotor.estimator import Estimator
from hocket.methods.applications.mfrl_quadrotor.method import MFRL_QUADROTOR, EstimatedFlights
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step

FEW = {"curriculum__prompts": 8, "hooks__0__first": [12, 4], "hooks__0__cheap": 3, "hooks__0__dear": 1}


def parts_of(task: str, **settings: Any) -> RunContext:
    form = tasks.find(task)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", task), ("recipe", MFRL_QUADROTOR), *more], form), form)


def test_a_task_without_flights_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="none; use --task flights"):
        parts_of("doors:10")


@pytest.mark.parametrize("wrong", [{"cheap": -1}, {"first": (0, 0)}])
def test_numbers_of_evaluations(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 0, with one evaluation at first"):
        EstimatedFlights(**wrong)


def test_a_setting_of_another_world_is_named() -> None:
    with pytest.raises(ConfigurationError, match="legs"):
        tasks.find("flights?legs=4")


def test_evaluations_add_up_and_are_kept() -> None:
    parts = parts_of("flights", **FEW)
    for step in (1, 2):
        metrics = run_async(train_step(parts, step)).metrics
    assert (metrics["flights/cheap"], metrics["flights/dear"]) == (12 + 6, 4 + 2)
    kept = next(iter(parts.hooks.state(parts).values()))
    assert all(isinstance(column, torch.Tensor) for column in kept.values())
    assert len(kept["flies"]) == 24


def test_a_level_without_evaluations_has_the_prior() -> None:
    parts = parts_of("flights", **{**FEW, "hooks__0__first": [0, 4]})
    estimator: Estimator = EstimatedFlights(first=(0, 4)).begin(parts, None)["estimator"]
    assert estimator.level.tolist() == [1] * 4

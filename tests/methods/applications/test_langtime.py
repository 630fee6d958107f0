"""Forecasts patch by patch: what is refused, and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.langtime.method import LANGTIME, RepeatedGAE, repeated_values
from hocket.methods.applications.langtime.series import NAMES, Forecasts, losses, windows
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step


def parts_of(task: str, prompts: int = 8) -> RunContext:
    form = tasks.find(task)
    pairs = [("task", task), ("recipe", LANGTIME), ("curriculum.prompts", prompts), ("rollout.samples", 1)]
    return build_parts(configure(pairs, form), form)


@pytest.mark.parametrize("wrong", ["series=moon", "patches=0", "patches=12"])
def test_other_series_and_horizons_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="glucose, sea or both, and 1 to 11 patches"):
        tasks.find(f"forecast?{wrong}")


@pytest.mark.parametrize("task", ["doors:10", "mpe:spread?length=3"])
def test_a_task_without_forecasts_is_refused(task: str) -> None:
    with pytest.raises(ConfigurationError, match="use --task forecast"):
        run_async(train_step(parts_of(task), 1))


@pytest.mark.parametrize("wrong", [{"gamma": 1.5}, {"lam": -0.1}])
def test_discounts_lie_in_the_unit_interval(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        RepeatedGAE(**wrong)


def test_a_series_that_stays_is_worth_nothing_to_lose() -> None:
    stays = np.concatenate([[[2.0]], np.full((1, 4), 0.5), np.full((1, 12), 0.5)], 1)
    rises = np.concatenate([[[2.0]], np.zeros((1, 4)), np.ones((1, 12))], 1)
    assert repeated_values(stays, 1.0) == 0
    assert repeated_values(rises, 1.0) == pytest.approx(-0.7)  # One patch is still to come.


def test_losses_are_cut_off() -> None:
    assert losses(np.full(4, 100.0), np.zeros(4)) == 5.0


@pytest.mark.parametrize("patches", [1, 11])
@pytest.mark.parametrize("name", NAMES)
def test_both_splits_have_windows_at_every_horizon(name: str, patches: int) -> None:
    assert min(len(windows(name, patches, split)) for split in ("train", "eval")) > 100


def test_windows_depend_on_the_seed_alone() -> None:
    world = Forecasts("glucose")
    (first, rows), (_, again), (_, other) = (world.drawn(seed) for seed in (4, 4, 6))
    assert first == 0
    assert np.array_equal(rows, again)
    assert not np.array_equal(rows, other)


def test_a_step_learns() -> None:
    parts = parts_of("forecast?series=sea&patches=3")
    assert np.isfinite(run_async(train_step(parts, 1)).metrics["loss"])

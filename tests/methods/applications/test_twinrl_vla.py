"""RL in a twin, then in reality: what is refused, and what a step records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.credit.forced_decisions import TaughtToo
from hocket.methods.applications.twinrl_vla.method import TWINRL_VLA, TwinFirst
from hocket.methods.applications.twinrl_vla.world import Reach, Starts
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step


def parts_of(task: str, **settings: Any) -> RunContext:
    form = tasks.find(task)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", task), ("recipe", TWINRL_VLA), *more], form), form)


def test_a_task_without_a_twin_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="none; use --task reach"):
        parts_of("doors:10")


def test_numbers_of_steps() -> None:
    with pytest.raises(ValueError, match="probes at least 1"):
        TwinFirst(probes=0)


def test_a_warm_up_is_taught_throughout_and_the_twin_not_at_all() -> None:
    parts = parts_of("reach", curriculum__prompts=4, hooks__0__warm=1, hooks__0__twin=1)
    warm, twin = (run_async(train_step(parts, step)).metrics for step in (1, 2))
    assert (warm["twin/taught"], twin["twin/taught"]) == (1.0, 0.0)
    assert (warm["twin/real"], twin["twin/real"]) == (0.0, 0.0)
    assert parts.lead.recipe.credit == TaughtToo(of=parts.lead.recipe.credit.of)


def test_the_twin_is_a_task_too() -> None:
    assert tasks.find("reach?twin=true").name == "reach:twin"


def test_a_start_depends_on_its_seed_alone() -> None:
    course = Reach(starts=Starts()).open(3)
    course.reset([0, 1, 2], [5, 6, 5])
    places = course.seen()[0][:, :2]
    assert np.array_equal(places[0], places[2])
    assert not np.array_equal(places[0], places[1])

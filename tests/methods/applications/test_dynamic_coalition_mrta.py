"""Robots that must come together at tasks."""

from __future__ import annotations

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.dynamic_coalition_mrta.arena import Coalitions
from hocket.methods.applications.dynamic_coalition_mrta.method import DYNAMIC_COALITION_MRTA
from hocket.train.assemble import build_parts
from hocket.train.config import configure


def built(name, **settings):
    task = tasks.find(name)
    pairs = [("task", name), ("recipe", DYNAMIC_COALITION_MRTA), ("seed", 0), *settings.items()]
    return build_parts(configure(pairs, task), task)


def test_weights_of_four_robots_serve_eight_in_a_larger_arena_that_see_less_far(tmp_path):
    few, many = (built(f"coalitions{ending}").lead.policy for ending in ("", "?agents=8&tasks=8&size=9&view=3&reach=3"))
    few.save(tmp_path)
    many.load(tmp_path)
    pairs = zip(few.module.state_dict().values(), many.module.state_dict().values(), strict=True)
    assert all(bool((left == right).all()) for left, right in pairs)
    assert many.module.actor.sharing
    course = Coalitions(count=8, tasks=8, size=9, view=3, reach=3).open(2)
    course.reset(range(2), [1, 3])
    mask = course.allowed()[5]
    action, _ = many.sample(course.seen()[5], np.full((2, 1), 0.5), np.ones(2, np.float32), mask)
    assert mask[np.arange(2), action].all()


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("coalitions?ids=true", {}),
        ("coalitions", {"network.normalise": True}),
        ("coalitions", {"network.body": "sets"}),
    ],
)
def test_what_maps_are_not_read_with_is_refused(task, settings):
    with pytest.raises(ConfigurationError, match="maps of tasks are read alone"):
        built(task, **settings)


@pytest.mark.parametrize(
    ("ending", "why"), [("agents=0", "at least 1"), ("latest=-1", "at least 0"), ("tasks=50&size=7", "do not fit")]
)
def test_an_arena_that_cannot_be_is_refused(ending, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(f"coalitions?{ending}")


def test_the_best_cover_is_known_of_small_arenas_alone():
    best = Coalitions().oracle(1)
    assert best is not None
    assert 0 < best.value <= 1
    assert Coalitions(count=5).oracle(1) is None

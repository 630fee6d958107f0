"""Worlds of single applications: a copy's episode is its own, settings that cannot be are refused in a sentence."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.worlds import world
from hocket.tasks.joint import JointTask


@pytest.mark.parametrize(
    "name",
    [
        "dse?block=3",
        "channel?length=3",
        "fleet?agents=3&length=3",
        "die?length=3",
        "sales?length=3",
        "campaign?length=3",
        "forecast?patches=3",
    ],
)
def test_an_episode_does_not_depend_on_the_other_copies(name: str) -> None:
    played = []
    for width, slot in ((1, 0), (3, 2)):
        form = cast(JointTask, tasks.find(name)).world
        book, draw = form.open(width), Key.of(7).derive("actions").numpy()
        book.reset(range(width), [11] * (width - 1) + [5])
        path = [book.seen()[0][slot]]
        for _ in range(3):
            actions = []
            for seat in form.seats:
                own = draw.integers(0, seat.actions) if seat.discrete else draw.uniform(-1, 1, seat.actions)
                # The other copies do something else.
                other = 0 if seat.discrete else np.zeros(seat.actions)
                actions.append(np.array([other] * (width - 1) + [own]))
            moved = book.step(actions, np.ones(width, bool))
            path += [moved.rewards[slot].astype(np.float32), book.seen()[0][slot]]
            if moved.terminated[slot].all():
                break
        played.append(np.concatenate(path))
        assert len(path) == (3 if name.startswith("dse") else 7)
    np.testing.assert_array_equal(played[0], played[1])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dse?workload=idle", "no workload 'idle'; choose from stream, random, cloud"),
        ("dse?block=7", "block = 7; it is from 1 to 6 parameters"),
        ("dse?interaction=-1", "interaction = -1.0; it is at least 0"),
        ("channel?length=1", "at least 2 steps of the pumps, not 1"),
        ("fleet?agents=1", "at least 2 vehicles"),
        ("die?length=0", "at least 1 change of the shape, not 0"),
        ("sales?length=0", "a dialogue has at least 1 turn"),
        ("sales?shift=2", "shift = 2.0; it is from 0 to 1"),
        ("push?reach=0", "reach = 0; both are at least 1"),
        ("push?away=30", "away = 30; it is above 3 and at most 20 cells"),
        ("prompts?shots=0", "length = 6, shots = 0; both are at least 1"),
        ("glass:two", "'two' is no number of stations; take glass:4"),
        ("glass:0", "0 stations and 12 sheets; both are at least 1"),
        ("glass:2?robot=fast", "no robot 'fast'; choose from standard, swift, heavy"),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_drones_need_a_grid() -> None:
    with pytest.raises(ConfigurationError, match="2 by 2 cells"):
        world("drones:1")

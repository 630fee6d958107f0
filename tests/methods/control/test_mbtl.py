"""Families of poles."""

from __future__ import annotations

import json
from typing import Any, cast

import gymnasium
import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import below
from hocket.methods.control.mbtl.bench import LONGEST, pushed
from hocket.methods.control.mbtl.method import (
    POLE_RETURNS,
    poles,
)
from hocket.methods.control.mbtl.world import LONGEST as POLE_EPISODE

ROOT = Key.of(0).derive("mbtl")


def test_a_pole_of_a_half_is_cartpoles():
    off, ended = 0.0, 0
    for length in (0.1, 0.5, 6.4):
        name = "hocket.methods.control.mbtl.world:Pole-v1"
        worlds = [gymnasium.make(name, length=length).unwrapped]
        worlds += [gymnasium.make("CartPole-v1").unwrapped] if length == 0.5 else []
        draw = ROOT.derive("moves").numpy()
        for world in worlds:
            world.reset(seed=3)
        state, over = np.array([cast(Any, worlds[0]).state]), False
        while not over:
            right = bool(draw.integers(2))
            told = [world.step(int(right)) for world in worlds]
            state, over = pushed(state, np.array([right]), np.array([length])), bool(told[0][2])
            off = max(off, *(float(np.abs(one[0] - state[0]).max()) for one in told))
            ended += over == bool(abs(state[0, 0]) > 2.4 or abs(state[0, 2]) > np.radians(12))
            ended -= not over
    assert below(1e-05, ended == 3, POLE_EPISODE == LONGEST, off=off).holds


def test_a_family_of_poles_is_read_with_its_own_table():
    kept, refused = json.loads(POLE_RETURNS.read_text(encoding="utf-8")), 0
    count = len(kept["returns"])
    read = [poles(family + 1).table.tolist() == kept["returns"][family] for family in range(count)]
    try:
        poles(count + 1)
    except ConfigurationError:
        refused += 1
    assert all(read)
    assert refused == 1

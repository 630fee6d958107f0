"""Records in a file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.cooperative import joint
from hocket.methods.marl.claims.multi_agent_ppo_global import CAREFUL, _chain
from hocket.methods.marl.multi_agent_ppo_global.method import (
    records_of,
)
from hocket.methods.marl.multi_agent_ppo_global.records import crew, recorded


def test_records_are_read_from_a_file():
    world, noise = crew(3, 2, 2, seed=1), Key.of(1).numpy()
    held = {
        "state": noise.integers(0, 3, 50),
        "action": noise.integers(0, 2, (50, 2)),
        "reward": 2 * noise.random(50),
        "after": noise.integers(0, 3, 50),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.npz"
        np.savez(path, allow_pickle=False, **held)
        found = replace(CAREFUL, data=str(path)).gathered(world, Key.of(0))
    paid, seen = np.zeros((3, 4)), np.zeros((3, 4, 3))
    for state, (first, second), reward, after in zip(*held.values(), strict=True):
        paid[state, 2 * first + second] += reward
        seen[state, 2 * first + second, after] += 1
    off = max(float(np.abs(found.paid - paid).max()), float(np.abs(found.seen - seen).max()))
    whole = CAREFUL.begun(world, found)
    again = records_of(whole)
    same = again.low == found.low and again.high == found.high == max(held["reward"].max(), world.process.reward.max())
    assert same
    assert bool((again.seen == seen).all())
    assert off < 1e-12


def test_records_are_drawn_from_discounted_play():
    world = crew(3, 2, 2, seed=4)
    policy = joint(_chain(world, Key.of(4).numpy())).reshape(3, -1)
    found = recorded(world, policy, 400_000, Key.of(5))
    shares, often = world.process.visits(policy), found.times > 4000
    told = {
        "visits": float(np.abs(found.times / 400_000 - shares).max()),
        "rewards": float(np.abs(found.reward - world.process.reward)[often].max()),
        "transitions": float(np.abs(found.transition - world.process.transition)[often].max()),
    }
    inside = found.low == world.process.reward.min() and found.high == world.process.reward.max()
    assert inside
    assert bool(often.sum() > 4)
    assert max(told.values()) < 0.03

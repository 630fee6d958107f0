"""PPO trained to balance a pole of one length and tried on poles of other lengths, many episodes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.policies.control import ControlPolicy
from hocket.recipes import find
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step

Array = NDArray[np.float64]
LONGEST = 200
"""Decisions of an episode, at most; `hocket.methods.control.mbtl.world` has the same."""


def pole_task(length: float) -> str:
    """The name of the task."""
    return f"gym:hocket.methods.control.mbtl.world:Pole-v1?length={length:g}"


def balancer(length: float, seed: int, steps: int = 8) -> ControlPolicy:
    """What PPO makes of so many batches, with the settings that the task suggests."""
    task = tasks.find(pole_task(length))
    config = configure([("recipe", find("ppo")), ("steps", steps), ("seed", seed)], task)
    parts = build_parts(config, task)
    for step in range(1, steps + 1):
        asyncio.run(train_step(parts, step))
    return cast(ControlPolicy, parts.lead.policy)


def pushed(state: Array, right: NDArray[np.bool_], length: Array) -> Array:
    """CartPole's next states `[N, 4]`: place, speed, angle and its speed, after a push of 10 N."""
    place, speed, angle, turning = state.T
    cosine, sine = np.cos(angle), np.sin(angle)
    drive = (np.where(right, 10.0, -10.0) + 0.1 * length * turning**2 * sine) / 1.1
    bent = (9.8 * sine - cosine * drive) / (length * (4 / 3 - 0.1 * cosine**2 / 1.1))
    gained = drive - 0.1 * length * bent * cosine / 1.1
    return np.stack([place + 0.02 * speed, speed + 0.02 * gained, angle + 0.02 * turning, turning + 0.02 * bent], 1)


def balanced(policy: ControlPolicy, lengths: Sequence[float], episodes: int = 20) -> Array:
    """Mean share of `LONGEST` decisions that its likeliest actions keep each pole up, `[lengths]`."""
    of = np.repeat(np.asarray(lengths, float), episodes)
    starts = Key.of(0).derive("poles").numpy().uniform(-0.05, 0.05, (episodes, 4))
    state, up, lasted = np.tile(starts, (len(lengths), 1)), np.ones(len(of), bool), np.zeros(len(of))
    for _ in range(LONGEST):
        with torch.no_grad():
            right = policy.module.actor(torch.from_numpy(state.astype(np.float32))).argmax(-1).numpy() == 1
        lasted += up
        state = np.where(up[:, None], pushed(state, right, of), 0.0)
        up &= (np.abs(state[:, 0]) <= 2.4) & (np.abs(state[:, 2]) <= np.radians(12))
    found: Array = lasted.reshape(len(lengths), episodes).mean(1) / LONGEST
    return found

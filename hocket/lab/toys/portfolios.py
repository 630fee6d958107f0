"""Trained investors of `market:SOURCE`, and what they hold and earn."""

from __future__ import annotations

import functools
from typing import cast

import numpy as np

from hocket import tasks
from hocket.lab.claims.shipped_check import configured
from hocket.policies.control import ControlPolicy
from hocket.recipes import find
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step
from hocket.zoo.joint.market import Array, Market, Portfolios, weights_of


@functools.cache
def investor(recipe: str, task: str, seed: int, steps: int) -> ControlPolicy:
    """A policy that was trained as `hocket train` does."""
    world = tasks.find(task)
    parts = build_parts(configured(find(recipe), task, world, {"seed": seed, "steps": steps}), world)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return cast(ControlPolicy, parts.lead.policy)


def world_of(task: str) -> Market:
    """The market of a task."""
    return cast(Market, cast(JointTask, tasks.find(task)).world)


def greedy_play(policy: ControlPolicy, world: Market, episodes: int) -> tuple[Array, Array]:
    """The weights `[T, B, assets]` and the net returns `[T, B]` of greedy play in episodes of evaluation."""
    book = Portfolios(world, episodes)
    book.reset(range(episodes), range(1, 2 * episodes, 2))
    uniforms, cold, live = np.zeros((episodes, policy.draws)), np.zeros(episodes, np.float32), np.ones(episodes, bool)
    weights, returns = [], []
    for _ in range(world.length):
        action, _ = policy.sample(book.seen()[0], uniforms, cold)
        weights.append(weights_of(action))
        returns.append(book.step([action], live).rewards[:, 0] / 100)
    return np.array(weights), np.array(returns)

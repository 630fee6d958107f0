"""Trained dispatchers of rows, and the routes that a fleet makes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.lab.claims.shipped_check import configured
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step
from hocket.zoo.joint.route_oracles import checked_cost
from hocket.zoo.joint.routes import Routes, VehicleRoutes

Array = NDArray[np.float64]
Chooser = Callable[[VehicleRoutes, NDArray[np.bool_]], NDArray[np.int64]]
"""Actions `[B, ..]` of a fleet whose rows are allowed where the mask `[B, V * R]` is true."""


@functools.cache
def dispatcher(recipe: str | Recipe, task: str, seed: int, steps: int) -> ControlPolicy:
    """A policy that was trained as `hocket train` does."""
    world, chosen = tasks.find(task), find(recipe) if isinstance(recipe, str) else recipe
    parts = build_parts(configured(chosen, task, world, {"seed": seed, "steps": steps}), world)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return cast(ControlPolicy, parts.lead.policy)


def routes_of(task: str) -> Routes:
    """The world of a task."""
    return cast(Routes, cast(JointTask, tasks.find(task)).world)


def nearest(fleet: VehicleRoutes, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Every vehicle goes to the nearest customer that it may serve, and to the depot if there is none.

    Of several that choose one customer the nearest has the first rank.
    """
    copies, vehicles = np.arange(len(allowed))[:, None], fleet.world.vehicles
    apart = np.where(allowed.reshape(len(allowed), vehicles, -1), fleet.distance[copies, fleet.at], 1e6)
    apart[..., 0] += 1e3
    rows = apart.argmin(-1)
    if vehicles == 1:
        return np.asarray(rows[:, 0], np.int64)
    order = np.argsort(np.argsort(apart.min(-1), 1, kind="stable"), 1, kind="stable")
    return np.concatenate([rows, order], 1)


def costs(world: Routes, choose: Chooser, seeds: Sequence[int]) -> tuple[Array, int]:
    """The checked cost of each seed's routes, `[B]`, and how many decisions the longest episode took.

    Raises:
        ConfigurationError: for routes that are no solution.
    """
    fleet, live, decisions = world.open(len(seeds)), np.ones(len(seeds), bool), 0
    fleet.reset(range(len(seeds)), seeds)
    while live.any():
        moved = fleet.step([choose(fleet, fleet.allowed()[0])], live)
        live, decisions = live & ~moved.terminated[:, 0], decisions + 1
    totals = [checked_cost(world.instance(seed), fleet.routes(slot)) for slot, seed in enumerate(seeds)]
    return np.array(totals), decisions

"""Dispatching rules of job shops, and schedules that they and trained schedulers make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.policies.control import ControlPolicy
from hocket.zoo.joint.shop import Schedules, Shop
from hocket.zoo.joint.shop_oracles import checked_makespan

Array = NDArray[np.float64]
Chooser = Callable[[Schedules, NDArray[np.bool_]], NDArray[np.int64]]
"""A job `[B]` for each copy, of those that the mask `[B, J]` allows."""

RULES = ("spt", "mwkr", "est")
"""Shortest processing time, most work remaining, earliest start."""


def by_rule(rule: str, *, delay: bool) -> Chooser:
    """A rule among what is allowed; without `delay` among those alone that can begin first."""

    def choose(shop: Schedules, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        if not delay:
            allowed = allowed & (shop.start <= np.where(allowed, shop.start, np.inf).min(1, keepdims=True))
        ahead = np.arange(shop.world.machines) >= shop.done[..., None]
        worth = {"spt": -shop.duration, "mwkr": (shop.durations * ahead).sum(2), "est": -shop.start}[rule]
        return np.asarray(np.where(allowed, worth, -np.inf).argmax(1), np.int64)

    return choose


def by_scheduler(policy: ControlPolicy) -> Chooser:
    """Greedy choices of a policy, for one batch of episodes from their beginning."""
    held: list[NDArray[np.float32]] = []

    def choose(shop: Schedules, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        count = len(allowed)
        if not held:
            held.append(np.zeros((count, policy.carries), np.float32))
        cold = np.zeros(count, np.float32)
        return policy.sample(shop.seen()[0], np.full((count, policy.draws), 0.5), cold, allowed, held[0])[0]

    return choose


def makespans(world: Shop, choose: Chooser, seeds: Sequence[int]) -> Array:
    """The checked makespan of each seed's schedule over its first bound, `[B]`.

    Raises:
        ConfigurationError: for what is no schedule.
    """
    shop, live = world.open(len(seeds)), np.ones(len(seeds), bool)
    shop.reset(range(len(seeds)), seeds)
    while live.any():
        live = live & ~shop.step([choose(shop, shop.allowed()[0])], live).terminated[:, 0]
    rows = zip(shop.machines.tolist(), shop.durations.tolist(), shop.starts.tolist(), strict=True)
    return np.array([checked_makespan(*row) for row in rows]) / shop.first

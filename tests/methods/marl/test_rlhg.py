"""The world of companions."""

from __future__ import annotations

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.methods.marl.claims.rlhg import _policy
from hocket.methods.marl.rlhg.companions import companion


def test_arrays_are_the_rules():
    off = {}
    for shut in (True, False):
        world = companion(4, 10, shut=shut)
        policy, rng = _policy(world), Key.of(1).numpy()
        won, reached = _played(policy, rng, 20_000, shut=shut)
        for name, seen, exact in (
            ("task", won, world.process.value(policy)),
            ("partner", reached, world.partner.value(policy)),
        ):
            off[f"{name}, {'shut' if shut else 'open'}"] = abs(seen.mean() - exact) / (seen.std() / len(seen) ** 0.5)
    assert max(off.values()) < 4


def _played(policy: Array, rng: np.random.Generator, count: int, *, shut: bool) -> tuple[Array, Array]:
    """Who won and what partners reached, by the rules in words: way 4, lever at 0, start at 1, goal at 5."""
    own, door, place = np.ones(count, int), np.full(count, not shut), np.zeros(count, int)
    reached = np.zeros(count)
    for chances in policy:
        reached += place == 2
        state = own * 6 + door * 3 + place
        action = (rng.random(count)[:, None] > chances[state].cumsum(1)).sum(1)
        walks = (rng.random(count) < 0.8) & ((place == 0) | ((place == 1) & door))
        place = np.where(place == 2, 0, place + walks)
        door = door | ((action == 2) & (own == 0)) | (rng.random(count) < 0.05)
        steps = (rng.random(count) < 0.9) & (own < 5) & (action < 2)
        own = np.where(steps, np.clip(own + np.where(action == 1, 1, -1), 0, 5), own)
    return (own == 5).astype(float), reached


def test_no_answer_is_above_the_optimum():
    world = companion(4, 10)
    highest = max(world.value(_policy(world, seed)) for seed in range(20))
    both = world.rewarded(world.process.reward + world.goals[:, None]).best.policy
    assert highest < world.optimum
    assert abs(world.value(both) - world.optimum) < 1e-12

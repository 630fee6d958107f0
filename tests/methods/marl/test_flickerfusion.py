"""The world of pursuers."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.methods.marl.claims.flickerfusion import _rows
from hocket.zoo.joint.evasion import Flee


def test_pursuers_come_and_go_as_the_world_says():
    world = Flee(count=2, pursuers="2-3", come="1-2", go="0-1", length=20)
    there = np.stack([one[:, 0, :, 0].sum(-1) for one in _rows(world)[:20]])
    first, last = there[0], there[-1]
    steps = np.flatnonzero((there[1:] != there[:-1]).any(1)) + 1
    between = steps.min() >= 6 and steps.max() <= 14
    spread = [set(one.astype(int).tolist()) for one in (first, last)]
    known = spread[0] == {2, 3} and spread[1] == {2, 3, 4, 5}
    edge = cast(Any, world.open(64))
    edge.reset(range(64), range(64))
    begun = edge.there
    at_edge = np.abs(np.abs(edge.place[:, 2:][begun]).max(-1) - 1).max()
    assert bool(between and known and at_edge < 1e-12)


def test_a_step_is_the_physics_by_hand():
    world = Flee(count=2, pursuers="3", come="1", go="1", length=24)
    course, draw = cast(Any, world.open(6)), np.random.default_rng(4)
    course.reset(range(6), range(6))
    errors = {"place": 0.0, "speed": 0.0, "pay": 0.0}
    for _ in range(24):
        place, speed, there, time = course.place.copy(), course.speed.copy(), course.there.copy(), course.time.copy()
        moves = draw.integers(0, 5, (2, 6))
        paid = course.step(list(moves), np.ones(6, bool)).rewards
        still = there & course.there  # Others were moved by coming and leaving.
        for slot in range(6):
            after = _by_hand(place[slot], speed[slot], there[slot], moves[:, slot])
            for name, ours, theirs in (("place", course.place, after[0]), ("speed", course.speed, after[1])):
                kept = np.concatenate([[True, True], still[slot]])
                errors[name] = max(errors[name], float(np.abs(ours[slot] - theirs)[kept].max()))
            errors["pay"] = max(errors["pay"], float(np.abs(paid[slot] - after[2]).max()))
        assert int(time[0]) + 1 == int(course.time[0])
    assert max(errors.values()) < 1e-9


def _by_hand(
    place: NDArray[Any], speed: NDArray[Any], there: NDArray[Any], moves: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], list[float]]:
    """Places, speeds and pay after a step of one copy with two agents."""
    bodies = [0, 1, *(2 + int(one) for one in np.flatnonzero(there))]
    steer = [np.array(one, float) for one in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))]
    new_place, new_speed = place.copy(), speed.copy()
    for body in bodies:
        if body < 2:
            force, fastest, radius = 4.0 * steer[moves[body]], 1.3, 0.05
        else:
            gaps = [place[agent] - place[body] for agent in (0, 1)]
            gap = min(gaps, key=np.linalg.norm)
            force, fastest, radius = 3.0 * gap / np.linalg.norm(gap), 1.0, 0.075
        for other in bodies:
            if other != body:
                apart = place[body] - place[other]
                far, touch = np.linalg.norm(apart), radius + (0.05 if other < 2 else 0.075)
                force = force + 100.0 * apart / far * np.logaddexp(0, (touch - far) / 1e-3) * 1e-3
        new_place[body] = place[body] + 0.1 * speed[body]
        new_speed[body] = 0.75 * speed[body] + 0.1 * force
        fast = np.linalg.norm(new_speed[body])
        new_speed[body] *= min(1.0, fastest / fast) if fast else 1.0
    pay = []
    for agent in (0, 1):
        gaps = [float(np.linalg.norm(new_place[agent] - new_place[body])) for body in bodies[2:]]
        out = [abs(float(x)) for x in new_place[agent]]
        edges = [10 * (x - 0.9) if 0.9 <= x < 1 else 0.0 for x in out]
        edges += [min(math.exp(2 * x - 2), 10.0) for x in out if x >= 1]
        pay.append(-sum(max(0.0, 1 - gap / 0.6) for gap in gaps) - sum(edges))
    return new_place, new_speed, pay

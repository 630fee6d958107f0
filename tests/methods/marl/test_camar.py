"""Discs on their way."""

from __future__ import annotations

import math

import numpy as np

from hocket.methods.marl.camar.world import AGENT, CELL, OBSTACLE, Routing, border, centres
from hocket.methods.marl.claims.camar import WORLD, _course


def test_what_an_agent_is_shown():
    course, error, shown = _course(WORLD, 40), 0.0, 0
    course.place += np.random.default_rng(1).uniform(-0.15, 0.15, course.place.shape)
    for agent, rows in enumerate(course.seen()):
        for slot, row in enumerate(rows):
            here, goal = course.place[slot, agent], course.goal[slot, agent] - course.place[slot, agent]
            far = float(np.linalg.norm(goal))
            told = [*(goal / (far if far > 0.3 else 0.3))]
            things = [(course.place[slot, other], AGENT) for other in range(3) if other != agent]
            things += [(disc, OBSTACLE) for disc in course.discs[slot]]
            for centre, radius in sorted(things, key=lambda one: math.dist(one[0], here))[:4]:
                apart = math.dist(centre, here)
                seen = abs(apart - AGENT - radius) < 0.3
                told += [*((centre - here) * (1 - (0.3 + radius) / apart) / 0.25 * seen)]
                shown += seen
            error = max(error, float(np.abs(np.array(told) - row).max()))
    assert error < 1e-5
    assert shown > 100


def test_starts_goals_and_obstacles_have_cells_of_their_own():
    wrong, nearest = 0, math.inf
    for world in (Routing(count=2, size=4, density=0.2), Routing(count=1, size=5, density=0.15)):
        course, draw, cells = _course(world, 50), np.random.default_rng(2), centres(world.size)
        side = world.size * CELL / 2
        for slot in range(50):
            mine = np.concatenate([course.place[slot], course.goal[slot]])
            at = np.linalg.norm(mine[:, None] - cells, axis=-1).argmin(1)
            wrong += len(set(at.tolist())) != 2 * world.count
            gaps = np.linalg.norm(mine[:, None] - course.discs[slot], axis=-1)
            wrong += int((gaps < CELL / 2 - 1e-9).sum())
        wrong += course.discs.shape[1] != 8 * world.obstacles + len(border(world.size))
        for time in range(60):
            if time % 15 == 0:
                heading = draw.choice([-1.0, 1.0], (world.count, 50, 2))
            course.step(list(heading), np.ones(50, bool))
            gaps = np.linalg.norm(course.place[:, :, None] - course.discs[:, None], axis=-1)
            nearest = min(nearest, float(gaps.min()) / (AGENT + OBSTACLE))
            wrong += int((np.abs(course.place) > side).sum())
    assert wrong == 0
    assert 0.5 < nearest < 1

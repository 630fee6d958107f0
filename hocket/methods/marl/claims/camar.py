"""CAMAR's claims."""

from __future__ import annotations

import itertools
import math
from statistics import fmean
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.teams import interval, trained
from hocket.methods.marl.camar.rrt import Discs, Tree, length
from hocket.methods.marl.camar.world import AGENT, OBSTACLE, Routing, route
from hocket.tasks.joint import JointTask

claim = Claims("camar", "arXiv:2508.12845")
WORLD = Routing(count=3, size=4, density=0.2, near=4)
OPEN, WALLS = "camar:routing", "camar:routing?agents=2&size=5&density=0.2&maps=4"


def _course(world: Routing, width: int) -> Any:
    course = cast(Any, world.open(width))
    course.reset(range(width), range(width))
    return course


@claim(
    "A route by RRT* touches nothing, along all of it; as the tree grows no route of any cell gets longer, and in an "
    "empty field it comes to the straight way, within 5 percent."
)
def a_route_by_rrt_touches_nothing_along_all_of_it_as_the_tree() -> Finding:
    world, touched, longer, found = Routing(count=2, size=5, density=0.2), 0, 0.0, 0
    for seed in range(4):
        course = _course(world, seed + 1)
        walls, goal = Discs(course.discs[seed], AGENT + OBSTACLE), course.goal[seed, 0]
        trees = [Tree.grown(goal, walls, 0.85, draws=draws, key=Key.of(seed)) for draws in (100, 200, 400)]
        for start in course.place[seed].tolist() + course.goal[seed, 1:].tolist():
            routes = [tree.route(np.array(start)) for tree in trees]
            lengths = [math.inf if one is None else length(one) for one in routes]
            longer = max(longer, 0.0, *(b - a for a, b in itertools.pairwise(lengths) if a < math.inf))
            for one in routes:
                if one is not None:
                    found += 1
                    touched += _touches(one, walls)
    empty = Discs(np.array([[9.0, 9.0]]), 0.15)
    tree = Tree.grown(np.array([0.7, 0.7]), empty, 0.85, draws=400, key=Key.of(3))
    way = tree.route(np.array([-0.7, -0.6]))
    ratio = math.inf if way is None else length(way) / math.dist((0.7, 0.7), (-0.7, -0.6))
    holds = touched == 0 and longer < 1e-9 and found > 20 and 1 - 1e-9 <= ratio < 1.05
    return Finding(holds, say(touched=touched, longer=longer, of_straight=ratio, routes=found))


def _touches(points: NDArray[Any], walls: Discs) -> int:
    """At how many of many places along a route something is touched."""
    share = np.linspace(0, 1, 200)[:, None]
    places = np.concatenate([one + share * (other - one) for one, other in itertools.pairwise(points)])
    gaps = np.linalg.norm(places[:, None] - walls.centres, axis=-1)
    return int((gaps < walls.clearance - 1e-9).sum())


@claim("What guides an agent is the next point of its route, and the goal at its end.")
def what_guides_an_agent_is_the_next_point_of_its_route_and_the() -> Finding:
    world = Routing(count=2, size=5, density=0.2, maps=4, guide=True)
    course, wrong, turns = _course(world, 20), 0, 0
    while bool((course.time < 40).all()):
        aims = course.aims()
        for slot in range(20):
            for agent in range(2):
                points = course.routes[slot][agent]
                wrong += not np.array_equal(aims[slot, agent], points[0])
                wrong += not np.allclose(points[-1], course.goal[slot, agent])
                turns += len(points) > 1
                wrong += len(points) > 1 and math.dist(points[0], course.place[slot, agent]) < 0.15
        pull = aims - course.place
        course.step([np.clip(8 * pull[:, agent], -1, 1) for agent in range(2)], np.ones(20, bool))
    here = float((np.linalg.norm(course.place - course.goal, axis=-1) < 0.1).mean())
    whole = route(world, 0, 3, 3)
    return Finding(wrong == 0 and turns > 100 and len(whole) > 0, say(wrong=wrong, arrived=here))


def _by_chance(name: str, episodes: int = 200) -> float:
    """The mean return of an agent that pushes evenly in all directions."""
    world = cast(Routing, cast(JointTask, tasks.find(name)).world)
    course, draw = _course(world, episodes), np.random.default_rng(0)
    earned, alive = 0.0, np.ones(episodes, bool)
    while alive.any():
        moved = course.step(list(draw.uniform(-1, 1, (world.count, episodes, 2))), alive)
        earned += float(moved.rewards[alive].sum())
        alive &= ~(moved.terminated | moved.truncated).all(1)
    return earned / (episodes * world.count)


@claim(
    "On a map without obstacles IPPO is above random play in each of 3 seeds, 95 % interval included (predicted).",
    slow=True,
)
def on_a_map_without_obstacles_ippo_is_above_random_play_in_each_of() -> Finding:
    scores, chance = [trained("ippo", OPEN, seed, 10, ()).score for seed in range(3)], _by_chance(OPEN)
    return Finding(interval(scores)[0] > chance, say(returns=scores, by_chance=chance))


@claim(
    "Among obstacles IPPO that RRT* guides needs fewer steps: over its first 12 it earns more in each of 3 seeds than "
    "without a guide (predicted).",
    slow=True,
)
def among_obstacles_ippo_that_rrt_guides_needs_fewer_steps_over_its() -> Finding:
    guided, alone = (
        [fmean(trained("ippo", name, seed, 12, ()).path) for seed in range(3)]
        for name in (f"{WALLS}&guide=true", WALLS)
    )
    holds = all(one > other for one, other in zip(guided, alone, strict=True))
    return Finding(holds, say(guided=guided, alone=alone))

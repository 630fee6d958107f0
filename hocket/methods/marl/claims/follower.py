"""Follower's claims."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.toys.beliefs import believing
from hocket.lab.toys.teams import interval, trained
from hocket.methods.marl.follower.guided_paths import PlannedPaths, PlansAhead, centrality
from hocket.methods.marl.follower.method import FOLLOWER, followed
from hocket.train.loop import collect
from hocket.zoo.joint.grids import distances, shortest

claim = Claims("follower", "arXiv:2310.01207")
CROWD, HALL = "mapf:planned?agents=8", "mapf:planned?agents=8&map=corridor"
SHORT = (("curriculum.prompts", 16), ("update.lr", 3e-3))
STEPS = 12


def _rolled(world: PlannedPaths, episodes: int, wander: float) -> tuple[PlansAhead, list[NDArray[np.float64]]]:
    """Copies after an episode in which all take the path's next step, or at times (`wander`) any move; the rewards."""
    course, rng = world.open(episodes), np.random.default_rng(0)
    course.reset(range(episodes), [2 * number + 1 for number in range(episodes)])
    paid = []
    for _ in range(world.length):
        steps = [sight[:, -4:].argmax(1) + 1 for sight in course.seen()]
        moves = [np.where(rng.random(episodes) < wander, rng.integers(0, 5, episodes), step) for step in steps]
        paid.append(course.step(moves, np.ones(episodes, bool)).rewards)
    return course, paid


@claim("The planned path is a cheapest one in the penalised graph: A* spends exactly as much; without costs, BFS.")
def the_planned_path_is_a_cheapest_one_in_the_penalised_graph_a() -> Finding:
    error, longest = 0.0, 0
    for world in (PlannedPaths(count=6, length=20), PlannedPaths(9, 8, length=20, map="corridor", crowd=3.0)):
        course, _ = _rolled(world, 10, 0.5)
        course.plan()
        for copy, agent in np.ndindex(10, world.count):
            start, goal = (tuple(int(one) for one in spot[copy, agent]) for spot in (course.place, course.goal))
            free, costs = course.free[copy], course.costs[copy, agent]
            path = shortest(free, (start[0], start[1]), (goal[0], goal[1]), costs)
            error = max(error, abs(sum(costs[cell] for cell in path[1:]) - course.ahead[copy, agent][start]))
            following = course.path[0][copy, agent]
            spent = costs[tuple(following)] + course.ahead[copy, agent][tuple(following)]
            error = max(error, abs(spent - course.ahead[copy, agent][start]))
            longest = max(longest, len(path))
    plain, _ = _rolled(PlannedPaths(count=4, length=3, crowd=0.0, avoid=0.0), 10, 0.5)
    plain.plan()
    for copy, agent in np.ndindex(10, 4):
        row, column = (int(one) for one in plain.goal[copy, agent])
        steps = distances(plain.free[copy], (row, column))
        error = max(error, float(np.abs(plain.ahead[copy, agent] - steps)[plain.free[copy]].max()))
    return below(1e-9, longest > 8, largest_error=error)


@claim(
    "A cell costs the largest mean distance of all cells over its own, and 1 more for each time that the agent saw "
    "another there since its goal was set.",
    "planner.h of the authors' code",
)
def a_cell_costs_the_largest_mean_distance_of_all_cells_over_its_own() -> Finding:
    world = PlannedPaths(count=6, length=24)
    course, rng = world.open(10), np.random.default_rng(0)
    course.reset(range(10), range(10))
    sightings, static = np.zeros((10, 6, 8, 8)), np.stack([_static(free) for free in course.free])
    error, again, renewed = 0.0, 0.0, 0
    for step in range(world.length):
        for copy, agent, other in np.ndindex(10, 6, 6):
            row, column = course.place[copy, other]
            if other != agent and np.abs(course.place[copy, other] - course.place[copy, agent]).max() <= 2:
                sightings[copy, agent, row, column] += 1
        course.plan()
        error = max(error, float(np.abs(static[:, None] + sightings - course.costs).max()))
        again, goals = max(again, float(sightings.max())), course.goal.copy()
        moves = [sight[:, -4:].argmax(1) + 1 for sight in course.seen()]
        stray = [np.where(rng.random(10) < 0.2, rng.integers(0, 5, 10), move) for move in moves]
        live = np.arange(10) != step % 10
        course.step(stray, live)
        changed = (course.goal != goals).any(-1)
        sightings[changed] = 0.0
        renewed += int(changed.sum())
        sightings[~live] -= _sights(course, ~live)  # Added again at the top of the loop, though nobody looked.
    return below(EXACT, again > 2, renewed > 20, largest_error=error)


def _sights(course: PlansAhead, copies: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Which cells hold another agent in sight, `[b, n, H, W]` of these copies."""
    place = course.place[copies]
    shown = np.zeros((len(place), place.shape[1], course.world.size, course.world.size))
    for copy, agent, other in np.ndindex(len(place), place.shape[1], place.shape[1]):
        if other != agent and np.abs(place[copy, other] - place[copy, agent]).max() <= course.world.sight:
            shown[copy, agent, place[copy, other, 0], place[copy, other, 1]] += 1
    return shown


def _static(free: NDArray[np.bool_]) -> NDArray[np.float64]:
    """By a search from every cell."""
    mean = np.zeros(free.shape)
    for row, column in np.argwhere(free).tolist():
        steps = distances(free, (row, column))
        mean[row, column] = steps[steps > 0].mean() if (steps > 0).any() else 0.0
    return np.where(free & (mean > 0), mean.max() / np.where(mean > 0, mean, 1.0), 1.0)


@claim("One agent that follows its path is paid 0.01 at every step; in a team, for each step that was along its path.")
def one_agent_that_follows_its_path_is_paid_0_01_at_every_step_in_a() -> Finding:
    world = PlannedPaths(count=1, length=60)
    course, _ = _rolled(world, 20, 0.0)
    before, states = course.state(), course.plan()[0]
    course.step([course.seen()[0][:, -4:].argmax(1) + 1], np.ones(20, bool))
    alone = bool((course.place == states).all()) and np.array_equal(before[:, 4:], course.state()[:, :2])
    parts = believing(FOLLOWER, "mapf:planned?agents=5&length=20", curriculum__prompts=6)
    batch = pack(asyncio.run(collect(parts, Key.of(1)))[0].trajectories)
    given = FOLLOWER.shaping[0](batch).scores["reward/decision"].values
    assert batch.parts is not None
    expected = []
    for turn, sights in enumerate(batch.observation):
        own = slice(6 * (turn % 5), 6 * (turn % 5) + 2)
        places = np.asarray(batch.joint[turn])[:, own]
        after = np.concatenate([places[1:], np.asarray(batch.parts.final_joint[turn])[None, own]])
        moved = np.rint(8 * (after - places)).astype(int)
        shown = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[np.asarray(sights)[:, -4:].argmax(1)]
        expected.append(0.01 * (moved == shown).all(1))
    wanted = np.concatenate(expected)
    share = float(followed(batch).mean())
    error = float(np.abs(given.numpy() - wanted).max())
    return below(EXACT, alone, 0.05 < share < 0.6, largest_error=error)


@claim("On a line the middle costs most, the ends cost 1; a cell that reaches no other, and a wall, cost 1.")
def on_a_line_the_middle_costs_most_the_ends_cost_1_a_cell_that() -> Finding:
    line = np.array([[1, 1, 1, 1, 0, 1]], bool)  # Mean distances 2, 4/3, 4/3, 2.
    costs = centrality(line.tobytes(), 1)[0].tolist()
    return Finding(np.allclose(costs, [1.0, 1.5, 1.5, 1.0, 1.0, 1.0]), say(costs=costs))


@claim(
    "Eight agents on random maps reach more goals than when each follows its path and waits when blocked, with these "
    "costs or without any, 95 % interval of 5 seeds included (predicted).",
    slow=True,
)
def eight_agents_on_random_maps_reach_more_goals_than_when_each() -> Finding:
    ours = [trained("follower", CROWD, seed, STEPS, SHORT).score for seed in SEEDS]
    waits = [_waiting(PlannedPaths(count=8, crowd=c, avoid=a)) for c, a in ((0.0, 0.0), (1.0, 1.0))]
    low = interval(ours)[0]
    return Finding(
        low > max(waits), say(goals=ours, lower_end=low, waiting_on_shortest_paths=waits[0], waiting=waits[1])
    )


@claim("So it is in two halls joined by a corridor.", slow=True)
def so_it_is_in_two_halls_joined_by_a_corridor() -> Finding:
    ours = [trained("follower", HALL, seed, STEPS, SHORT).score for seed in SEEDS[:3]]
    waits = _waiting(PlannedPaths(count=8, map="corridor"))
    return Finding(min(ours) > waits, say(goals=ours, waiting=waits))


@claim("Without the dynamic cost a learner reaches fewer goals, in the mean of 3 seeds (predicted).", slow=True)
def without_the_dynamic_cost_a_learner_reaches_fewer_goals_in_the() -> Finding:
    ours, without = (
        [trained("follower", world, seed, STEPS, SHORT).score for seed in SEEDS[:3]]
        for world in (CROWD, f"{CROWD}&avoid=0")
    )
    return Finding(float(np.mean(ours)) > float(np.mean(without)), say(goals=ours, without=without))


def _waiting(world: PlannedPaths) -> float:
    """Goals of an agent when all take their path's next step, which waits where it is blocked."""
    return float(np.sum(_rolled(world, 100, 0.0)[1])) / 100 / world.count


claim.shipped(FOLLOWER, "shaping")

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
from hocket.methods.marl.follower.guided_paths import PlannedPaths, PlansAhead, crossings
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


@claim("A cell costs 1, the share of shortest paths over it, by enumeration, and 2 more where another is in sight.")
def a_cell_costs_1_the_share_of_shortest_paths_over_it_by() -> Finding:
    free = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1]], bool)
    cells = [(int(row), int(column)) for row, column in np.argwhere(free)]
    counted = np.zeros(free.shape)
    for start in cells:
        for goal in cells:
            ways = _ways(free, start, goal) if start != goal else []
            for path in ways:
                for cell in path[1:-1]:
                    counted[cell] += 1 / len(ways)
    error = float(np.abs(crossings(free.tobytes(), 3) - counted / counted.max()).max())
    course, _ = _rolled(PlannedPaths(count=6, length=8, crowd=1.5, avoid=2.0), 20, 0.5)
    course.plan()
    seen = 0
    for copy, agent in np.ndindex(20, 6):
        costs = 1 + 1.5 * crossings(course.free[copy].tobytes(), 8)
        for other in range(6):
            if other != agent and np.abs(course.place[copy, other] - course.place[copy, agent]).max() <= 2:
                costs[tuple(course.place[copy, other])] += 2.0
                seen += 1
        error = max(error, float(np.abs(costs - course.costs[copy, agent]).max()))
    return below(EXACT, seen > 20, largest_error=error)


def _ways(free: NDArray[np.bool_], start: tuple[int, int], goal: tuple[int, int]) -> list[list[tuple[int, int]]]:
    """All shortest paths."""
    ahead = distances(free, goal)
    if start == goal:
        return [[goal]]
    found = []
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        there = (start[0] + down, start[1] + right)
        inside = 0 <= there[0] < free.shape[0] and 0 <= there[1] < free.shape[1]
        if inside and free[there] and ahead[there] == ahead[start] - 1:
            found += [[start, *rest] for rest in _ways(free, there, goal)]
    return found


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


@claim(
    "Eight agents on random maps reach more goals than when each follows its path and waits when blocked, with these "
    "costs or without any, 95 % interval of 5 seeds included (predicted).",
    slow=True,
)
def eight_agents_on_random_maps_reach_more_goals_than_when_each() -> Finding:
    ours = [trained("follower", CROWD, seed, STEPS, SHORT).score for seed in SEEDS]
    waits = [_waiting(PlannedPaths(count=8, crowd=c, avoid=a)) for c, a in ((0.0, 0.0), (1.0, 2.0))]
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

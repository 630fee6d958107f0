"""POGEMA's claims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap
from hocket.lab.toys.teams import by_chance, interval, trained
from hocket.methods.marl.pogema import lifelong_performance, path_finding, performance, scalability
from hocket.zoo.joint.grids import Cell, distances, shortest
from hocket.zoo.joint.one_shot_paths import OneShotPaths
from hocket.zoo.joint.paths import MOVES, LifelongPaths
from hocket.zoo.joint.walks import Walk

claim = Claims("pogema", "arXiv:2407.14931")
STAY, NORTH, SOUTH, WEST, EAST = range(5)
QUICK = (("curriculum.prompts", 32), ("update.lr", 3e-3))


def _cell(of: NDArray[np.int64]) -> Cell:
    return int(of[0]), int(of[1])


@claim("On a map of three agents, costs, makespan, success and coordination are those counted by hand.")
def on_a_map_of_three_agents_costs_makespan_success_and() -> Finding:
    """A walks to its goal. B reaches its own, leaves it and comes back. C first runs into the wall at (1, 1)."""
    starts, goals = [[0, 0], [3, 3], [1, 0]], [[0, 2], [2, 2], [3, 0]]
    moves = [[EAST, NORTH, EAST], [EAST, WEST, SOUTH], [STAY, EAST, SOUTH], [STAY, WEST, STAY]]
    whole, paid = _played(OneShotPaths(4, 3, stay=True), starts, goals, moves, [(1, 1)])
    part, early = _played(OneShotPaths(4, 3, stay=True), starts, goals, moves[:3], [(1, 1)])
    holds = whole.costs().tolist() == [2, 4, 3] and whole.solved and whole.arrived == 1.0
    holds &= (whole.sum_of_costs, whole.makespan, whole.collisions()) == (9, 4, 1)
    holds &= part.costs().tolist() == [2, 3, 3] and not part.solved and part.makespan == 3
    holds &= paid.tolist() == [[0, 0, 0]] * 3 + [[1, 1, 1]] and not early.any()
    return below(
        EXACT,
        holds,
        error_of_coordination=abs(whole.coordination() - 11 / 12),
        error_of_the_share_that_arrived=abs(part.arrived - 2 / 3),
    )


def _played(
    world: OneShotPaths,
    starts: Sequence[Sequence[int]],
    goals: Sequence[Sequence[int]],
    moves: Sequence[Sequence[int]],
    walls: Sequence[Cell] = (),
) -> tuple[Walk, NDArray[np.float64]]:
    """The walk and the rewards `[T, n]` of one copy from a position that is set by hand."""
    course = world.open(1)
    course.free[0] = True
    for wall in walls:
        course.free[0][wall] = False
    course.place[0], course.goal[0] = starts, goals
    places, paid = [course.place[0].copy()], []
    for step in moves:
        paid.append(course.step([np.array([one]) for one in step], np.ones(1, bool)).rewards[0])
        places.append(course.place[0].copy())
    goal = np.repeat(np.array(goals)[None], len(places), 0)
    return Walk(np.stack(places), goal, np.array(moves)), np.stack(paid)


@claim("Goals reached are rewards paid, and throughput is their number over steps; by hand: 3 goals in 5 steps, 0.6.")
def goals_reached_are_rewards_paid_and_throughput_is_their_number() -> Finding:
    goal = np.zeros((6, 3, 2), np.int64)
    goal[2:, 0], goal[4:, 0], goal[5:, 2] = 1, 2, 3
    by_hand = Walk(np.zeros_like(goal), goal, np.zeros((5, 3), np.int64)).throughput()
    world, draw = LifelongPaths(count=6), np.random.default_rng(0)
    course = world.open(1)
    course.reset([0], [5])
    places, goals, moves, paid = [course.place[0]], [course.goal[0].copy()], [], 0.0
    for _ in range(4000):
        moves.append(draw.integers(0, 5, world.count))
        paid += float(course.step(list(moves[-1][:, None]), np.ones(1, bool)).rewards.sum())
        places.append(course.place[0])
        goals.append(course.goal[0].copy())
    seen = Walk(np.stack(places), np.stack(goals), np.stack(moves))
    return below(EXACT, seen.reached() == paid > 30, error=abs(by_hand - 0.6) + abs(seen.throughput() - paid / 4000))


@claim("One agent that takes A*'s path needs exactly the shortest way, found by breadth first: path finding is 1.")
def one_agent_that_takes_a_s_path_needs_exactly_the_shortest_way() -> Finding:
    world, error, longest = OneShotPaths(12, 1, density=0.3), 0.0, 0
    for seed in range(30):
        course = world.open(1)
        course.reset([0], [seed])
        start, goal = course.place[0].copy(), course.goal[0].copy()
        path = np.array(shortest(course.free[0], _cell(start[0]), _cell(goal[0])))
        moves = [[int((step == MOVES).all(1).argmax())] for step in np.diff(path, axis=0)]
        walls = [_cell(one) for one in np.argwhere(~course.free[0])]
        walk, paid = _played(world, start.tolist(), goal.tolist(), moves, walls)
        optimal = int(distances(course.free[0], _cell(goal[0]))[_cell(start[0])])
        error = max(error, abs(path_finding(walk.sum_of_costs, optimal) - 1), abs(float(paid.sum()) - 1))
        longest = max(longest, optimal)
    holds = path_finding(8, 6) == 0.75 and path_finding(None, 6) == 0.0
    return below(EXACT, holds, longest > 12, largest_error=error)


@claim("Over instances: SoC_best / SoC, throughput / best and time an agent are averaged as by hand.")
def over_instances_soc_best_soc_throughput_best_and_time_an_agent() -> Finding:
    solved = performance({"a": [10, 20, None, None], "b": [20, None, 30, None]})
    lifelong = lifelong_performance({"a": [1.0, 0.0, 0.5, 0.0], "b": [0.5, 0.0, 2.0, 1.0]})
    times = scalability({32: 1.0, 64: 4.0, 128: 16.0})  # A half, a quarter, a half.
    error = gap([solved["a"], solved["b"]], [0.5, 0.375])
    error = max(error, gap([lifelong["a"], lifelong["b"]], [1.25 / 3, 2.5 / 3]), abs(times - 1.25 / 3))
    better = scalability({32: 4.0, 64: 1.0})
    return below(EXACT, better == 1.0, largest_error=error)


@claim(
    "On 8 x 8 cells with 4 agents IPPO is above random play in every seed, 95 % interval included, with one "
    "goal each and with ever new ones (predicted).",
    slow=True,
)
def on_8_x_8_cells_with_4_agents_ippo_is_above_random_play_in_every() -> Finding:
    holds, said = True, []
    for task, steps in (("mapf:once?size=8&agents=4", 10), ("mapf:lifelong?size=8&agents=4", 10)):
        scores, chance = [trained("ippo", task, seed, steps, QUICK).score for seed in SEEDS], by_chance(task)
        low, high = interval(scores)
        holds &= low > chance and min(scores) > chance
        said.append(f"{task}: {low:.3f} to {high:.3f} against {chance:.3f} by chance")
    return Finding(holds, ", ".join(said))

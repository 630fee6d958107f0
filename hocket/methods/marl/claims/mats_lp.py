"""MATS-LP's claims."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, say
from hocket.methods.marl.mats_lp.method import MATS_LP
from hocket.methods.marl.mats_lp.play import LightPolicy, Searchers, along_paths, played
from hocket.methods.marl.mats_lp.search import PROGRESS, Array, Ints, Problems, StepwiseSearch, Trees
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step
from hocket.zoo.joint.grids import distances
from hocket.zoo.joint.paths import MOVES, LifelongPaths, drawn_map

claim = Claims("mats-lp", "arXiv:2312.15908")


def _parts(name: str, **settings: Any) -> RunContext:
    task = tasks.find(name)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", name), ("recipe", MATS_LP), *more], task), task)


def _problems(maps: Sequence[NDArray[np.bool_]], goals: Ints) -> Problems:
    """Where all of the agents with these goals `[B, n, 2]` are there."""
    ways = [
        [distances(free, (int(row), int(column))) for row, column in each]
        for free, each in zip(maps, goals, strict=True)
    ]
    return Problems(np.stack(maps), np.array(ways), np.ones(goals.shape[:2], bool))


def _even(place: Ints) -> tuple[Array, Array]:
    """No prior and no values."""
    return np.full((*place.shape[:2], len(MOVES)), 1 / len(MOVES)), np.zeros(place.shape[:2])


def _drawn(seed: int, count: int, agents: int, size: int = 4) -> tuple[Problems, Ints]:
    """Problems on maps of `size` cells a side with some walls, and cells."""
    draw, maps, cells = Key.of(seed).numpy(), list[NDArray[np.bool_]](), list[Ints]()
    while len(maps) < count:
        free = draw.random((size, size)) > 0.2
        spots = np.argwhere(free & (distances(free, (0, 0)) >= 0)) if free[0, 0] else np.zeros((0, 2), int)
        if len(spots) >= 2 * agents:
            maps.append(free)
            cells.append(spots[draw.permutation(len(spots))[: 2 * agents]])
    every = np.stack(cells)
    return _problems(maps, every[:, agents:]), every[:, :agents]


@dataclass
class _Node:
    """A node of a tree in plain Python; `place` and `least` are of the state in which the step began."""

    place: Ints
    least: Ints
    prior: Array
    worth: float
    agent: int
    taken: tuple[int, ...] = ()
    paid: float = 0.0
    visits: list[int] = field(default_factory=lambda: [0] * len(MOVES))
    total: list[float] = field(default_factory=lambda: [0.0] * len(MOVES))
    child: dict[int, _Node] = field(default_factory=dict)


def _by_hand(rule: StepwiseSearch, problems: Problems, place: Ints, evaluate: Any, row: int) -> list[int]:
    """The root's visits of one tree, node by node."""
    only = Problems(problems.free[[row]], problems.ways[[row]], problems.present[[row]])
    count, plans = place.shape[1], np.arange(place.shape[1]) < rule.planners

    def state(cells: Ints, least: Ints, paid: float) -> _Node:
        prior, worth = (rows[row] for rows in evaluate(np.repeat(cells[None], len(place), 0)))
        prior = np.where(only.present[0][:, None], prior, np.eye(len(MOVES))[0])
        under_way = only.present[0] & (least > 0) & plans
        return _Node(cells, least, prior, float(worth[under_way].sum()), 0, paid=paid)

    root = state(place[row], only.left(place[[row]])[0], 0.0)
    for _ in range(rule.searches):
        node, path, steps = root, list[tuple[_Node, int]](), 0
        while True:
            score = []
            for move in range(len(MOVES)):
                chance, visits = node.prior[node.agent, move], node.visits[move]
                if plans[node.agent]:
                    mean = node.total[move] / visits if visits else 0.0
                    mean += rule.c * chance * max(sum(node.visits), 1) ** 0.5 / (1 + visits)
                    score.append(mean if chance > 0 else -np.inf)
                else:
                    score.append(chance / (1 + visits))
            move = int(np.argmax(score))
            path.append((node, move))
            fresh = move not in node.child
            last = node.agent == count - 1
            if fresh and not last:
                node.child[move] = replace(
                    node,
                    agent=node.agent + 1,
                    taken=(*node.taken, move),
                    paid=0.0,
                    visits=[0] * 5,
                    total=[0.0] * 5,
                    child={},
                )
            elif fresh:
                cells = only.moved(node.place[None], np.array([[*node.taken, move]]))
                left = only.left(cells)[0]
                nearer = only.present[0] & (left < node.least)
                node.child[move] = state(
                    cells[0], np.where(nearer, left, node.least), PROGRESS * float((nearer & plans).sum())
                )
            node = node.child[move]
            steps += last
            if last and (fresh or steps == rule.depth):
                break
        value = node.worth
        for parent, move in reversed(path):
            if parent.agent == count - 1:
                value = parent.child[move].paid + rule.gamma * value
            parent.visits[move] += 1
            parent.total[move] += value
    return root.visits


@claim(
    "Trees grown in lockstep are those of a search written out node by node: moves by Q + c P sqrt(N) / (1 + N_a), one "
    "agent after the other, paid for progress, with odds and values of any kind; absent agents stay.",
    "section 4",
)
def trees_in_lockstep_are_those_written_out() -> Finding:
    wrong, complete = 0, 0
    for agents, depth, planners in ((1, 12, 1), (2, 3, 2), (3, 2, 1), (3, 3, 2)):
        problems, place = _drawn(agents, 4, agents)
        problems.present[0, 1:] = False
        table = Key.of(7).numpy().random((agents, 16, 6))

        def evaluate(cells: Ints, table: Array = table, agents: int = agents) -> tuple[Array, Array]:
            held = table[np.arange(agents), cells[..., 0] * 4 + cells[..., 1]]
            return held[..., :5] / held[..., :5].sum(-1, keepdims=True), held[..., 5]

        rule = StepwiseSearch(planners, searches=40, c=0.4, depth=depth, gamma=0.9)
        visits, _ = rule(problems, place, evaluate)
        for row in range(4):
            wrong += int((np.array(_by_hand(rule, problems, place, evaluate, row)) != visits[row]).any())
            complete += int(visits[row].sum() == 40)
    return Finding(wrong == 0 and complete == 16, say(trees_that_differ=wrong, trees=complete))


BAY = ("#.#", "...", "###")
"""A corridor of three cells with a bay in the middle."""


@claim(
    "Two agents that must pass each other in a corridor with a bay: the moves that a search for both tried most, one "
    "after the other down a tree of 1,500 leaves, take the fewest steps that there are, by enumeration.",
    "derived",
    slow=True,
)
def in_a_corridor_the_search_yields_as_the_optimum_does() -> Finding:
    free = np.array([[cell != "#" for cell in row] for row in BAY])
    goals, place = np.array([[[1, 2], [1, 0]]]), np.array([[[1, 0], [1, 2]]])
    problems = _problems([free], goals)
    trees = Trees(StepwiseSearch(2, 1500, c=0.3, depth=6), problems, place, _even)
    for _ in range(1500):
        trees.grow()
    fewest, node, steps = _fewest(problems, place), 0, 0
    while problems.left(place).any() and node >= 0 and steps < 6:
        chosen = list[int]()
        for _ in range(2):
            chosen.append(int(trees.visits[0, node].argmax()))
            node = int(trees.child[0, node, chosen[-1]])
        place = problems.moved(place, np.array([chosen]))
        steps += 1
    return Finding(steps == fewest and not problems.left(place).any(), say(steps=steps, fewest=fewest))


def _fewest(problems: Problems, place: Ints) -> int:
    """The steps until both stand on their goals, over all joint moves."""
    front, known, steps = {place[0].tobytes()}, set[bytes](), 0
    joint = np.array(list(itertools.product(range(len(MOVES)), repeat=2)))
    while True:
        cells = np.stack([np.frombuffer(item, np.int64).reshape(2, 2) for item in sorted(front)])
        if any((problems.left(item[None]) == 0).all() for item in cells):
            return steps
        known |= front
        after = [problems.moved(item[None], move[None])[0].tobytes() for item in cells for move in joint]
        front, steps = set(after) - known, steps + 1


@claim(
    "The mean over drawn problems of two agents of the root's error, against the best value by enumeration, falls with "
    "the leaves.",
    "derived",
)
def more_leaves_come_nearer_to_the_best_value() -> Finding:
    problems, place = _drawn(11, 12, 2, size=3)
    depth, gamma = 3, 0.9
    best = np.array([_best(problems, place, row, depth, gamma) for row in range(len(place))])
    errors = []
    for leaves in (10, 60, 360):
        _, value = StepwiseSearch(2, leaves, c=0.3, depth=depth, gamma=gamma)(problems, place, _even)
        errors.append(float(np.abs(value - best).mean()))
    return Finding(errors[0] > errors[1] > errors[2] and errors[2] < 0.5 * errors[0], say(errors=errors))


def _best(problems: Problems, place: Ints, row: int, depth: int, gamma: float) -> float:
    """What the best joint moves earn in `depth` steps."""
    only = Problems(problems.free[[row]], problems.ways[[row]], problems.present[[row]])
    joint = np.array(list(itertools.product(range(len(MOVES)), repeat=2)))
    wide = Problems(*(np.repeat(rows, len(joint), 0) for rows in (only.free, only.ways, only.present)))  # type: ignore[arg-type]

    @functools.cache
    def value(cells: bytes, least: tuple[int, ...], left: int) -> float:
        if not left:
            return 0.0
        places = np.frombuffer(cells, np.int64).reshape(1, 2, 2)
        after = wide.moved(np.repeat(places, len(joint), 0), joint)
        far, best = wide.left(after), 0.0
        for state, steps in {
            (place_after.tobytes(), tuple(far[number].tolist())) for number, place_after in enumerate(after)
        }:
            paid = PROGRESS * sum(new < old for new, old in zip(steps, least, strict=True))
            lower = tuple(min(new, old) for new, old in zip(steps, least, strict=True))
            best = max(best, paid + gamma * value(state, lower, left - 1))
        return best

    return value(place[row].tobytes(), tuple(only.left(place[[row]])[0].tolist()), depth)


@claim("A step is paid 0.1 where its agent is nearer to its goal, by BFS, than ever since the goal was set.")
def a_step_is_paid_where_it_is_nearer_than_ever() -> Finding:
    parts = _parts("mapf:lifelong?agents=3&length=30&size=6", curriculum__prompts=6)
    episodes = asyncio.run(collect(parts, Key.of(1)))[0].trajectories
    batch = pack(episodes)
    rewards = MATS_LP.shaping[0](batch).scores["reward/decision"].values.numpy()
    assert batch.parts is not None
    world, expected = LifelongPaths(6, 3, length=30), list[float]()
    for turn, states in enumerate(batch.joint):
        column = 4 * (turn % 3)
        free = drawn_map(world, episodes[turn // 3].scenario.seed or 0)
        every_state = np.concatenate([np.asarray(states), np.asarray(batch.parts.final_joint[turn])[None]])
        rows = np.rint(6 * every_state[:, column : column + 4]).astype(int)
        least = None
        for before, after in itertools.pairwise(rows):
            steps = distances(free, (before[2], before[3]))
            if least is None:
                least = steps[before[0], before[1]]
            far = steps[after[0], after[1]]
            expected.append(PROGRESS * bool(far < least))
            least = None if (after[2:] != before[2:]).any() else min(least, far)
    off = float(np.abs(rewards - np.array(expected)).max())
    return below(EXACT, 0.003 < float(np.mean(expected)) < 0.05, off=off)


@claim(
    "A problem has the agent and the nearest others within its window, the others' goals where a straight line along "
    "their last move ends; nobody beyond the window enters it."
)
def a_problem_is_made_of_what_is_seen() -> Finding:
    world = LifelongPaths(9, 12, length=20, sight=2)
    course, draw, wrong, guests = world.open(3), Key.of(3).numpy(), 0, 0
    course.reset(range(3), range(3))
    before = course.place.copy()
    for _ in range(6):
        searchers = Searchers(LightPolicy(None))
        searchers._before = before
        problems, place, goal = searchers.problems(course)
        for number, (copy, agent) in enumerate(np.ndindex(3, 12)):
            own_place = course.place[copy, agent]
            near = [other for other in range(12) if other != agent and _gap(course.place[copy, other], own_place) <= 2]
            near = sorted(near, key=lambda other: _gap(course.place[copy, other], own_place))[:2]
            members = [agent, *near]
            wrong += int(problems.present[number].sum() != len(members))
            wrong += int((place[number, : len(members)] != course.place[copy, members]).any())
            wrong += int((goal[number, 0] != course.goal[copy, agent]).any())
            for seat, other in enumerate(near, 1):
                end = _line(course.free[copy], before[copy, other], course.place[copy, other])
                wrong += int((goal[number, seat] != end).any())
                guests += 1
            for seat in range(len(members)):
                row, column = (int(part) for part in goal[number, seat])
                wrong += int((problems.ways[number, seat] != distances(course.free[copy], (row, column))).any())
        before = course.place.copy()
        course.step(list(draw.integers(0, 5, (12, 3))), np.ones(3, bool))
    return Finding(wrong == 0 and guests > 100, say(wrong=wrong, others=guests))


def _gap(cell: Ints, other: Ints) -> int:
    return int(np.abs(cell - other).max())


def _line(free: NDArray[np.bool_], before: Ints, latest: Ints) -> Ints:
    """Two cells on along the last move, or as far as that goes."""
    ends = [latest]
    for far in (1, 2):
        cell = latest + far * (latest - before)
        inside = bool(((cell >= 0) & (cell < len(free))).all())
        if not (latest - before).any() or not inside or not free[cell[0], cell[1]]:
            break
        ends.append(cell)
    return np.asarray(ends[-1])


@claim(
    "Eight agents on open maps reach more goals with the search than on shortest paths that ignore others. (That they "
    "reach more than by the prior alone did not hold: they reach fewer.)",
    "section 6",
    slow=True,
)
def with_the_search_agents_reach_more_goals_than_on_paths() -> Finding:
    parts = _parts("mapf:lifelong")
    for step in range(1, 13):
        run_async(train_step(parts, step))
    world, light = LifelongPaths(10, 8, density=0.05, length=40), LightPolicy(parts.lead.policy)
    movers = {"search": Searchers(light), "policy": light, "paths": along_paths}
    goals = {name: float(played(world, mover, 4).mean()) for name, mover in movers.items()}  # type: ignore[arg-type]
    return Finding(goals["search"] > goals["paths"], say(**goals))


claim.shipped(MATS_LP, "shaping")

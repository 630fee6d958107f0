"""Claims about a robot that carries sheets of glass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.methods.applications.glass_flow_robot_rl import ROBOTS, Array, GlassFlow, GlassLine, least_makespan
from hocket.policies.control import ControlPolicy
from hocket.recipes import find
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step

claim = Claims("glass-flow-robot-rl", "the abstract; robots, line and times are our own")

Chooser = Callable[[GlassFlow, NDArray[np.bool_]], NDArray[np.int64]]
"""A stage `[B]` for each copy, of those that the mask `[B, stations + 1]` allows."""

UNSEEN = range(1, 201, 2)


@claim("A way takes as long as the area under its trapezoid of speed needs, for every robot, laden or not.")
def a_way_takes_as_long_as_its_trapezoid() -> Finding:
    off = 0.0
    for robot, metres, sheet in itertools.product(ROBOTS.values(), (0.1, 0.5, 1.0, 4.0), (False, True)):
        top = robot.speed * (robot.laden if sheet else 1.0)
        seconds = float(robot.travel(np.array(metres), sheet=sheet))
        moments = np.linspace(0, seconds, 20_001)
        speed = np.minimum(np.minimum(robot.acceleration * moments, robot.acceleration * (seconds - moments)), top)
        off = max(off, abs(float(np.trapezoid(speed, moments)) - metres))
    still = max(float(robot.travel(np.array(0.0))) for robot in ROBOTS.values())
    return Finding(off < 1e-6 and still == 0, say(metres_off=off, standing=still))


def _by_chance(seed: int) -> Chooser:
    draw = Key.of(seed).numpy()
    return lambda book, mask: (draw.random(mask.shape) * mask).argmax(1)


def by_rule(rule: str) -> Chooser:
    """`fifo`: the sheet that was ready first. `nearest`: of the sheets that are ready when the robot comes, the
    nearest. `soonest`: what can be taken first. `push`: what is nearest to the port where sheets begin."""

    def choose(book: GlassFlow, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        ways = np.abs(np.arange(book.world.stations + 1) - book.place[:, None]).astype(np.float64)
        waits = np.maximum(book.ready - book.clock[:, None] - book.robot.travel(ways), 0)
        # The sheets in the port are ready whenever the robot decides.
        since = np.where(np.arange(ways.shape[1]) == 0, book.clock[:, None], book.ready)
        worth = {"fifo": -since, "nearest": -(ways + 1e3 * (waits > 0) + waits), "soonest": -book.reached()}
        worth |= {"push": -np.arange(ways.shape[1]) + 0 * ways}
        return np.asarray(np.where(mask, worth[rule], -np.inf).argmax(1), np.int64)

    return choose


def played(world: GlassLine, choose: Chooser, seeds: Sequence[int]) -> tuple[GlassFlow, Array]:
    """The line after all sheets of these seeds, and the returns `[B]`."""
    book, live, total = world.open(len(seeds)), np.ones(len(seeds), bool), np.zeros(len(seeds))
    book.reset(range(len(seeds)), seeds)
    while live.any():
        moved = book.step([choose(book, book.allowed()[0])], live)
        total += moved.rewards[:, 0] * live
        live = live & ~moved.terminated[:, 0]
    return book, total


def _faults(book: GlassFlow, slot: int) -> list[str]:
    """What is wrong with the transfers of a copy, as somebody finds who has only the list of them and a clock."""
    robot, taken, put = book.robot, book.taken[slot].tolist(), book.put[slot].tolist()
    sheets, stages, faults = len(taken), len(taken[0]), list[str]()
    gone, lasts = robot.acceleration, robot.speed * robot.laden
    ride = 1 / lasts + lasts / gone if lasts**2 <= gone else 2 / gone**0.5
    for sheet, stage in itertools.product(range(sheets), range(stages)):
        if abs(put[sheet][stage] - taken[sheet][stage] - 2 * robot.grip - ride) > 1e-9:
            faults.append("a transfer lasts otherwise")
        stays = taken[sheet][stage] - (put[sheet][stage - 1] if stage else -1e9)
        if stage and stays < book.times[slot, sheet, stage - 1] - 1e-9:
            faults.append("a sheet leaves before it is ready")
        if sheet and stage < stages - 1 and put[sheet][stage] < taken[sheet - 1][stage + 1]:
            faults.append("two sheets are in a station")
    order = sorted((taken[sheet][stage], sheet, stage) for sheet in range(sheets) for stage in range(stages))
    for (_, sheet, stage), (begin, _, after) in itertools.pairwise([(0.0, -1, -1), *order]):
        way = abs(after - stage - 1) * 1.0
        empty = way / robot.speed + robot.speed / gone if way >= robot.speed**2 / gone else 2 * (way / gone) ** 0.5
        if begin < (put[sheet][stage] if sheet >= 0 else 0.0) + empty - 1e-9:
            faults.append("the robot is at two places")
    return faults


@claim(
    "Whatever is chosen ends, with every sheet through every station: no two of them in one, none before it is ready, "
    "the robot at one place at a time; and the return is minus the makespan over its bound, which is at least 1."
)
def whatever_is_chosen_is_a_schedule() -> Finding:
    faults, off, least, lines = list[str](), 0.0, 1e9, (GlassLine(1), GlassLine(4, 5), GlassLine(3, 6, "heavy"))
    for world, choose in itertools.product(lines, (_by_chance(0), by_rule("nearest"))):
        book, total = played(world, choose, range(6))
        for slot in range(6):
            faults += _faults(book, slot)
            off = max(off, abs(total[slot] * world.bound(world.drawn(slot)[1]) + float(book.put[slot].max())))
        least = min(least, float(-total.max()))
    return Finding(
        not faults and off < 1e-9 and least >= 1 - 1e-12,
        say(faults=", ".join(sorted(set(faults))) or "none", off=off, least=least),
    )


@claim("The oracle is the best of all orders, which are counted, and no rule is above it.")
def the_oracle_is_the_best_of_all_orders() -> Finding:
    off, above = 0.0, -1e9
    for stations, sheets, robot in ((1, 4, "swift"), (2, 3, "standard"), (3, 2, "heavy")):
        world = GlassLine(stations, sheets, robot)
        for seed in range(3):
            course, best = world.open(1), float("inf")
            course.reset([0], [seed])
            stack = [course.snapshot(0)]
            while stack:
                state = stack.pop()
                course.restore(0, state)
                for stage in np.flatnonzero(course.allowed()[0][0]):
                    course.restore(0, state)
                    if course.step([np.array([stage])], np.ones(1, bool)).terminated[0, 0]:
                        best = min(best, float(course.clock[0] / course.first[0]))
                    else:
                        stack.append(course.snapshot(0))
            off = max(off, abs(best + world.oracle(seed).value))
    world, seeds = GlassLine(4, 6), range(10)
    limits = np.array([world.oracle(seed).value for seed in seeds])
    for rule in ("fifo", "nearest", "soonest", "push"):
        above = max(above, float((played(world, by_rule(rule), seeds)[1] - limits).max()))
    return Finding(off < 1e-9 and above < 1e-9, say(off=off, a_rule_above=above))


@claim(
    "With two stations of fixed times a sheet more costs what the better of the two cycles of one sheet does.",
    "Sethi et al. 1992, whose ways are even",
)
def two_stations_go_in_the_better_cycle() -> Finding:
    off, chosen = 0.0, [0, 0]
    for robot in ROBOTS.values():
        near, back, home = (float(robot.travel(np.array(way))) for way in (1.0, 2.0, 3.0))
        for first, second in itertools.product((1.0, 8.0, 40.0), repeat=2):
            # A sheet alone through the line; or each station is emptied and filled again in turn.
            alone = 3 * robot.carry + first + second + home
            turn = 2 * robot.carry + back
            both = max(3 * robot.carry + near + 2 * back, first + turn, second + turn)
            chosen[both < alone] += 1
            makespans = [least_makespan(robot, [[first, second]] * count) for count in (9, 10, 11)]
            gaps = np.diff(makespans) - min(alone, both)
            off = max(off, float(np.abs(gaps).max()))
    return Finding(off < 1e-9 and min(chosen) > 0, say(off=off, alone_and_both=chosen))


def _by_policy(policy: ControlPolicy) -> Chooser:
    def choose(book: GlassFlow, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        cold, count = np.zeros(len(mask), np.float32), len(mask)
        return policy.sample(book.seen()[0], np.full((count, policy.draws), 0.5), cold, mask)[0]

    return choose


def _learnt(task: str, steps: int) -> Chooser:
    form = tasks.find(task)
    parts = build_parts(configured(find("ppo"), task, form, {}), form)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    policy = parts.lead.policy
    assert isinstance(policy, ControlPolicy)
    return _by_policy(policy)


@claim(
    "PPO as shipped, on unseen lines of 4 stations, needs at least 2 % less time than the rules of the first ready, of "
    "the nearest and of the soonest, as little as the rule that fills the line first, within a thousandth, and at most "
    "2 % more than the best of all orders; so it does with 2 stations.",
    slow=True,
    learns=True,
)
def a_learnt_dispatcher_is_near_the_best_order() -> Finding:
    shown, holds = dict[str, float](), True
    for task, steps in (("glass:4", 40), ("glass:2", 10)):
        world = GlassLine(int(task[-1]))
        learnt = float(-played(world, _learnt(task, steps), UNSEEN)[1].mean())
        rules = {
            rule: float(-played(world, by_rule(rule), UNSEEN)[1].mean())
            for rule in ("fifo", "nearest", "soonest", "push")
        }
        best = float(-np.mean([world.oracle(seed).value for seed in UNSEEN]))
        holds &= best <= learnt <= 1.02 * best and learnt <= 1.001 * rules["push"]
        if world.stations == 4:
            holds &= all(learnt <= 0.98 * rules[rule] for rule in ("fifo", "nearest", "soonest"))
        shown |= {f"learnt {world.stations}": learnt, f"best {world.stations}": best}
        shown |= {f"{rule} {world.stations}": value for rule, value in rules.items()}
    return Finding(holds, say(**shown))

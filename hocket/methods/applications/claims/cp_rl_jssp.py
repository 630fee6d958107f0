"""Claims about job shops."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.lab.toys.route_players import dispatcher
from hocket.methods.applications.cp_rl_jssp import record_solved
from hocket.policies.control import ControlPolicy
from hocket.recipes import find
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step
from hocket.zoo.joint.shop import Schedules, Shop, classic
from hocket.zoo.joint.shop_oracles import checked_makespan, least_makespan

claim = Claims("cp-rl-jssp", "arXiv:2306.05747, the abstract; the propagation is derived here")

TASK, STEPS = "shop:6x6", 24
UNSEEN = range(1, 201, 2)

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


def resized(policy: ControlPolicy, task: str) -> ControlPolicy:
    """A policy with the same weights for a task with another number of rows."""
    other = cast(JointTask, tasks.find(task))
    wide = ControlPolicy(other.spaces(other.world.agents), key=policy.key, network=policy.network)
    for part in policy.attached:
        wide.attach(part)
    wide.module.load_state_dict(policy.module.state_dict())
    return wide


def _by_chance(seed: int) -> Chooser:
    draw = Key.of(seed).numpy()
    return lambda shop, allowed: (draw.random(allowed.shape) * allowed).argmax(1)


def _best_by_hand(world: Shop, seed: int) -> float:
    """The least makespan over all orders in which operations may be appended, of a handful of them."""
    machines, durations = world.drawn(seed)
    best = float("inf")
    for order in set(itertools.permutations(sorted([*range(world.jobs)] * world.machines))):
        ready, free, done = [0] * world.jobs, [0] * world.machines, [0] * world.jobs
        for job in order:
            machine = int(machines[job, done[job]])
            ready[job] = free[machine] = max(ready[job], free[machine]) + int(durations[job, done[job]])
            done[job] += 1
        best = min(best, max(ready))
    return best


def _best_allowed(world: Shop, seed: int) -> float:
    """The least makespan over all choices that the masks leave."""
    course, best = world.open(1), float("inf")
    course.reset([0], [seed])
    stack = [course.snapshot(0)]
    while stack:
        state = stack.pop()
        course.restore(0, state)
        for job in np.flatnonzero(course.allowed()[0][0]):
            course.restore(0, state)
            if course.step([np.array([job])], np.ones(1, bool)).terminated[0, 0]:
                best = min(best, float(course.ready[0].max()))
            else:
                stack.append(course.snapshot(0))
    return best


@claim("Some schedule that the masks leave is optimal: counting them and counting all orders find the same makespan.")
def some_schedule_in_reach_is_optimal() -> Finding:
    world, off = Shop(3, 2), 0.0
    for seed in range(4):
        off = max(off, abs(_best_allowed(world, seed) - _best_by_hand(world, seed)))
    return Finding(off == 0, say(off=off))


@claim("Whatever is chosen is a schedule, and the bound along it never falls nor exceeds its makespan.")
def whatever_is_chosen_is_a_schedule() -> Finding:
    world, choose, live = Shop(5, 4), _by_chance(2), np.ones(30, bool)
    book, bounds = world.open(30), list[Array]()
    book.reset(range(30), range(30))
    while live.any():
        bounds.append(book.bound.copy())
        live = live & ~book.step([choose(book, book.allowed()[0])], live).terminated[:, 0]
    bounds.append(book.bound.copy())
    steps = np.diff(np.array(bounds), axis=0)
    checked = makespans(world, _by_chance(2), range(30))
    off = float(np.abs(checked - book.bound / book.first).max())
    return Finding(bool((steps >= 0).all()) and off < 1e-12 and bool((checked >= 1).all()), say(off=off))


@claim("CP-SAT proves FT06 55 and LA01 666, and no rule's schedule is below.", slow=True)
def cp_sat_proves_the_classic_optima() -> Finding:
    shown, holds = dict[str, float](), True
    for name, jobs, machines, optimum in (("ft06", 6, 6, 55), ("la01", 10, 5, 666)):
        world = Shop(jobs, machines, name)
        rows = [table.tolist() for table in world.drawn(0)]
        makespan, proven = least_makespan(*rows)
        holds &= proven and makespan == optimum
        for rule in RULES:
            book = world.open(1)
            book.reset([0], [0])
            holds &= float(makespans(world, by_rule(rule, delay=False), [0])[0] * book.first[0]) >= makespan - 1e-9
        shown[name] = makespan
    return Finding(holds, say(**shown))


@claim(
    "Trained for 24 steps on drawn shops of 6 by 6, its schedules are shorter than those of the best of three rules, "
    "with and without delay, on unseen shops of 6 by 6 and of 10 by 10.",
    slow=True,
)
def a_learnt_rule_is_shorter_than_the_best_of_three() -> Finding:
    policy, shown, holds = dispatcher("rloo", TASK, 0, STEPS), dict[str, float](), True
    for world in (Shop(6, 6), Shop(10, 10)):
        learnt = float(makespans(world, by_scheduler(resized(policy, world.name)), UNSEEN).mean())
        rules = {
            f"{rule}{'' if delay else ' without delay'}": float(
                makespans(world, by_rule(rule, delay=delay), UNSEEN).mean()
            )
            for rule in RULES
            for delay in (False, True)
        }
        best = min(rules, key=lambda rule: rules[rule])
        holds &= learnt < rules[best]
        shown |= {f"learnt {world.jobs}": learnt, f"{best} {world.jobs}": rules[best]}
    return Finding(holds, say(**shown))


CLASSIC = (
    *("ft06", "ft10", "ft20", *(f"abz{number}" for number in range(5, 10))),
    *(f"la{number:02}" for number in range(1, 41)),
    *(f"orb{number:02}" for number in range(1, 11)),
)
"""Instances of Fisher and Thompson, Adams and others, Lawrence, Applegate and Cook, 6 by 6 to 30 by 10 and 20 by 15."""


@claim(
    "On 58 classic instances the schedules of the rule that was learnt on drawn shops of 6 by 6 are nearer the optimum "
    "than those of the best of three rules without delay, by more than the interval of the mean difference.",
    slow=True,
    learns=True,
)
def on_classic_instances_the_learnt_rule_is_nearer_the_optimum() -> Finding:
    policy = dispatcher("rloo", TASK, 0, STEPS)
    rows = np.array([_above_optimum(policy, name) for name in CLASSIC])
    learnt, *rules = rows.mean(0)
    less = rows[:, 1 + int(np.argmin(rules))] - rows[:, 0]
    error = 1.96 * float(less.std(ddof=1)) / len(less) ** 0.5
    return Finding(
        float(less.mean()) > error and bool((rows >= 0).all()),
        say(
            learnt=float(learnt),
            **dict(zip(RULES, map(float, rules), strict=True)),
            less=float(less.mean()),
            error=error,
            shorter=int((less > 0).sum()),
            longer=int((less < 0).sum()),
        ),
    )


def _above_optimum(policy: ControlPolicy, name: str) -> list[float]:
    """How far the makespans of a policy and of the three rules are above the optimum, as shares of it."""
    jobs, machines = classic(name)[0].shape
    world, wide = Shop(jobs, machines, name), resized(policy, Shop(jobs, machines).name)
    choosers = (by_scheduler(wide), *(by_rule(rule, delay=False) for rule in RULES))
    return [float(makespans(world, choose, [0])[0] / -world.oracle(0).value) - 1 for choose in choosers]


@claim(
    "CP-SAT's schedules of 100 drawn shops, made again decision by decision, are optimal; an imitation of them, by 100 "
    "gradients, has shorter schedules of unseen shops than the best of three rules, and as short ones, within .01, as "
    "RLOO after 24 steps, at 6 by 6 and at 10 by 10.",
    slow=True,
    learns=True,
)
def an_imitation_of_the_solvers_schedules_is_as_good_as_rloo() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "solved.npz"
        record_solved(Shop(6, 6), range(0, 200, 2), file)
        paid = np.load(file)["rewards"].reshape(100, -1).sum(1)
        imitation = _imitation(file)
    off = max(abs(float(paid[place]) - Shop(6, 6, exact=True).oracle(2 * place).value) for place in range(10))
    shown, holds = dict[str, float](), off < 1e-9
    for world in (Shop(6, 6), Shop(10, 10)):
        ours, alone = (
            float(makespans(world, by_scheduler(resized(policy, world.name)), UNSEEN).mean())
            for policy in (imitation, dispatcher("rloo", TASK, 0, STEPS))
        )
        rule = float(makespans(world, by_rule("mwkr", delay=False), UNSEEN).mean())
        holds &= ours < rule and ours < alone + 0.01
        shown |= {f"imitation {world.jobs}": ours, f"alone {world.jobs}": alone, f"mwkr {world.jobs}": rule}
    return Finding(holds, say(off_optimal=off, **shown))


def _imitation(file: Path) -> ControlPolicy:
    """What `hocket train --recipe bc` makes of a file by 100 gradients on whole episodes."""
    world = tasks.find(TASK)
    data = {"store.data": str(file), "store.length": 36, "store.gradients_per_step": 100, "steps": 1}
    parts = build_parts(configured(find("bc"), TASK, world, data), world)
    run_async(train_step(parts, 1))
    return cast(ControlPolicy, parts.lead.policy)

"""Claims about robots that form coalitions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun, configured
from hocket.methods.applications.dynamic_coalition_mrta.arena import CHANNELS, CoalitionCourse, Coalitions
from hocket.methods.applications.dynamic_coalition_mrta.best_cover import best_cover
from hocket.methods.applications.dynamic_coalition_mrta.method import DYNAMIC_COALITION_MRTA
from hocket.methods.applications.dynamic_coalition_mrta.network import CellScores
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step

claim = Claims("dynamic-coalition-mrta", "arXiv:2412.20397; the authors' code, lcdbezerra/marl_mrt2a")

Floats = NDArray[np.float64]
Chooser = Callable[[CoalitionCourse], list[NDArray[Any]]]


def _at_random(course: CoalitionCourse, draw: np.random.Generator) -> list[NDArray[Any]]:
    return [(draw.random(mask.shape) * mask).argmax(1) for mask in course.allowed()]


def _nearest(course: CoalitionCourse) -> list[NDArray[Any]]:
    """The nearest task in view, of equally near ones the first."""
    span = course.world.span
    rows, columns = np.abs(np.indices((2 * span + 1,) * 2) - span).reshape(2, -1)
    return [np.where(mask, -np.maximum(rows, columns), -99).argmax(1) for mask in course.allowed()]


def _covers(world: Coalitions, choose: Chooser, count: int) -> Floats:
    """The share of worth covered in each of so many unseen episodes."""
    course, live, covered = world.open(count), np.ones(count, bool), np.zeros(count)
    course.reset(range(count), [2 * number + 1 for number in range(count)])
    while live.any():
        moved = course.step(choose(course), live)
        covered += np.where(live, moved.rewards[:, 0], 0.0)
        live &= ~moved.terminated[:, 0]
    return covered


def _chosen(policy: ControlPolicy, temperature: float) -> Chooser:
    draw = Key.of(11).numpy()

    def choose(course: CoalitionCourse) -> list[NDArray[Any]]:
        width = len(course.time)
        warm = np.full(width, temperature, np.float32)
        rows = zip(course.seen(), course.allowed(), strict=True)
        return [policy.sample(sight, draw.random((width, 1)), warm, mask)[0] for sight, mask in rows]

    return choose


@functools.cache
def _learnt(name: str, steps: int, sharing: bool = True) -> ControlPolicy:
    recipe: Recipe = DYNAMIC_COALITION_MRTA if sharing else DYNAMIC_COALITION_MRTA.but(hooks=())
    task = tasks.find(name)
    parts = build_parts(configured(recipe, name, task, {"seed": 0}), task)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return cast(ControlPolicy, parts.lead.policy)


def _world(name: str) -> Coalitions:
    return cast(Coalitions, cast(JointTask, tasks.find(name)).world)


@claim(
    "What a robot sees is as written out cell by cell: robots and tasks within its view, and of robots within reach "
    "0.67^k at the k-th cell of a shortest way to what they chose; it may choose the tasks that it sees."
)
def maps_are_as_written_out() -> Finding:
    world, draw = Coalitions(count=5, tasks=5, size=7, view=2, reach=3, latest=4), Key.of(3).numpy()
    course, live, off, heard = world.open(8), np.ones(8, bool), 0.0, 0
    course.reset(range(8), range(8))
    for _ in range(7):
        masks = course.allowed()
        for number, sight in enumerate(course.seen()):
            for copy in range(8):
                maps = _written_out(course, copy, number)
                off = max(off, float(np.abs(sight[copy].reshape(maps.shape) - maps).max()))
                heard += int((maps[4] > 0).sum())
                tasks_seen = maps[1:4].any(0)
                expected = tasks_seen if tasks_seen.any() else maps[6] > 0
                off = max(off, float((masks[number][copy] != expected.ravel()).any()))
        course.step(_at_random(course, draw), live)
    return Finding(off < 1e-6 and heard > 200, say(off=off, cells_of_intentions=heard))


def _written_out(course: CoalitionCourse, copy: int, number: int) -> Floats:
    world, wide = course.world, 2 * course.world.span + 1
    maps, place = np.zeros((CHANNELS, wide, wide)), course.place[copy].tolist()
    row, column = place[number]

    def put(channel: int, cell: list[int], value: float, sight: int) -> None:
        down, right = cell[0] - row, cell[1] - column
        if max(abs(down), abs(right)) <= sight:
            maps[channel, down + world.span, right + world.span] += value

    for other, spot in enumerate(place):
        if other == number:
            continue
        put(0, spot, 1.0, world.view)
        if max(abs(spot[0] - row), abs(spot[1] - column)) <= world.reach:
            cell, value = list(spot), 1.0
            while cell != course.target[copy, other].tolist():
                for axis in (0, 1):
                    cell[axis] += int(np.sign(course.target[copy, other, axis] - cell[axis]))
                value *= 0.67
                put(4, cell, value, world.span)
    for task in range(world.tasks):
        if course.left[copy, task] and course.time[copy] >= course.release[copy, task]:
            put(int(course.level[copy, task]), course.cell[copy, task].tolist(), 1.0, world.view)
    maps[5] = course.time[copy] / world.length
    for down, right in itertools.product(range(wide), repeat=2):
        spot = (row + down - world.span, column + right - world.span)
        inside = all(0 <= axis < world.size for axis in spot)
        maps[6, down, right] = inside
        maps[5, down, right] *= inside
    return maps


@claim(
    "A task of level l is done when l robots push it at once, and pays all of them l squared over the sum of all; "
    "those who are too few wait beside it, and who was bound keeps to its choice where nothing may be revised."
)
def as_many_as_its_level_must_push_a_task() -> Finding:
    wrong, done, waited = 0, 0, 0
    for revise in (True, False):
        world, draw = Coalitions(count=4, tasks=5, size=5, latest=3, revise=revise), Key.of(5).numpy()
        course, live = world.open(40), np.ones(40, bool)
        course.reset(range(40), range(40))
        for time in range(6):
            actions, wide = _at_random(course, draw), 2 * world.span + 1
            place, left, target, bound = (
                part.copy() for part in (course.place, course.left, course.target, course.bound)
            )
            moved = course.step(actions, live)
            for copy in range(40):
                pushing = dict[int, list[int]]()
                for robot in range(4):
                    down, right = divmod(int(actions[robot][copy]), wide)
                    named = np.clip(place[copy, robot] + [down - world.span, right - world.span], 0, 4)
                    wrong += not revise and bool(bound[copy, robot]) and named.tolist() != target[copy, robot].tolist()
                    for task in range(5):
                        there = left[copy, task] and time >= course.release[copy, task]
                        beside = np.abs(named - place[copy, robot]).max() <= 1
                        if there and beside and named.tolist() == course.cell[copy, task].tolist():
                            pushing.setdefault(task, []).append(robot)
                paid = 0.0
                for task, robots in pushing.items():
                    enough = len(robots) >= course.level[copy, task]
                    wrong += bool(course.left[copy, task]) == enough
                    for robot in robots:
                        ends = course.cell[copy, task] if enough else place[copy, robot]
                        wrong += course.place[copy, robot].tolist() != ends.tolist()
                    paid += int(course.level[copy, task]) ** 2 * enough
                    done, waited = done + int(enough), waited + len(robots) * (not enough)
                paid /= sum(int(level) ** 2 for level in course.level[copy])
                wrong += bool(np.abs(moved.rewards[copy] - paid).max() > 1e-12)
    return Finding(wrong == 0 and min(done, waited) > 100, say(wrong=wrong, done=done, waited=waited))


@claim("The best cover is the best of all joint plans of small arenas, played by the arena itself.")
def the_best_cover_is_that_of_all_plans() -> Finding:
    world, off, varied = Coalitions(count=2, tasks=2, size=4, length=4, latest=2), 0.0, set()
    plans = np.array(list(itertools.product(itertools.product(range(3), repeat=2), repeat=4)))
    span, live = world.span, np.ones(len(plans), bool)
    for seed in range(20):
        course, covered = world.open(len(plans)), np.zeros(len(plans))
        course.place, course.cell, course.level, course.release = (
            np.repeat(part, len(plans), 0) for part in _begun(world, seed)
        )
        course.left[:] = True
        open_still = live.copy()
        for time in range(4):
            actions = []
            for robot in range(2):
                cells = np.concatenate([course.cell, course.place[:, robot, None]], 1)
                way = cells[np.arange(len(plans)), plans[:, time, robot]] - course.place[:, robot] + span
                actions.append(way[:, 0] * (2 * span + 1) + way[:, 1])
            moved = course.step(actions, open_still)
            covered += np.where(open_still, moved.rewards[:, 0], 0.0)
            open_still &= ~moved.terminated[:, 0]
        best = _best(world, seed)
        off = max(off, abs(best - float(covered.max())))
        varied.add(round(best, 3))
    return Finding(off < 1e-12 and len(varied) > 2, say(off=off, values=len(varied)))


def _begun(
    world: Coalitions, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    course = world.open(1)
    course.reset([0], [seed])
    return course.place, course.cell, course.level, course.release


def _best(world: Coalitions, seed: int) -> float:
    place, cell, level, release = _begun(world, seed)
    return best_cover(place[0], cell[0], level[0], release[0], world.length)


@claim("What others intend changes a robot's scores if they are shared, and else does not.")
def intentions_change_scores_where_they_are_shared() -> Finding:
    moved, task = {}, tasks.find("coalitions")
    for name, recipe in (("shared", DYNAMIC_COALITION_MRTA), ("not", DYNAMIC_COALITION_MRTA.but(hooks=()))):
        actor = cast(Any, build_parts(configured(recipe, "coalitions", task, {}), task).lead.policy).module.actor
        maps = torch.from_numpy(Key.of(2).numpy().random((4, CHANNELS, 9, 9)).astype(np.float32))
        other = maps.clone()
        other[:, 4] += 1.0
        with torch.no_grad():
            moved[name] = float((actor(maps.flatten(1)) - actor(other.flatten(1))).abs().max())
    return Finding(moved["not"] == 0 and moved["shared"] > 1e-6, say(**moved))


@claim(
    "`hocket train --recipe dynamic-coalition-mrta` covers at least 95 % of the best cover of 200 unseen episodes, "
    "greedily, and in none more; chance and the rule of the nearest task cover less, beyond the intervals.",
    slow=True,
    learns=True,
)
def it_covers_nearly_what_can_be_covered() -> Finding:
    world, draw = _world("coalitions"), Key.of(4).numpy()
    best = np.array([_best(world, 2 * number + 1) for number in range(200)])
    ours = _covers(world, _chosen(_learnt("coalitions", 24), 0.0), 200)
    chance, rule = _covers(world, lambda course: _at_random(course, draw), 200), _covers(world, _nearest, 200)
    share = float(ours.mean() / best.mean())
    apart = all(_lower(ours - other) > 0 for other in (chance, rule))
    holds = share >= 0.95 and bool((ours <= best + 1e-9).all()) and apart
    return Finding(
        holds, say(share=share, best=float(best.mean()), chance=float(chance.mean()), nearest=float(rule.mean()))
    )


def _lower(values: Floats) -> float:
    """The lower end of the 95 % interval of the mean."""
    return float(values.mean() - 1.96 * values.std(ddof=1) / len(values) ** 0.5)


@claim(
    "The same weights play with twice the robots and tasks on 8 by 8 cells: drawn, they cover what the rule of the "
    "nearest task covers to within .05; greedily less, beyond the interval of the difference.",
    slow=True,
)
def the_same_weights_play_with_twice_the_robots() -> Finding:
    world, policy = _world("coalitions?agents=8&tasks=8&size=8"), _learnt("coalitions", 24)
    drawn, greedy = (_covers(world, _chosen(policy, temperature), 200) for temperature in (1.0, 0.0))
    rule = _covers(world, _nearest, 200)
    figures = {"drawn": float(drawn.mean()), "greedy": float(greedy.mean()), "nearest": float(rule.mean())}
    holds = abs(figures["drawn"] - figures["nearest"]) < 0.05 and _lower(rule - greedy) > 0
    return Finding(holds, say(**figures))


WIDE = "coalitions?size=8&view=5&reach=5&length=12&latest=6"
"""Where ways are longer and time is short."""

NARROW = "coalitions?size=8&view=2&reach=6&length=14&latest=4"
"""Where robots see two cells far and hear six."""


@claim(
    f"On `{WIDE}` 20 steps with revision cover more than without it, drawn and greedily, beyond the interval of the "
    "difference over 200 unseen episodes (1 seed).",
    "section V",
    slow=True,
)
def revision_helps() -> Finding:
    fixed = f"{WIDE}&revise=false"
    pairs = [
        (
            _covers(_world(WIDE), _chosen(_learnt(WIDE, 20), warm), 200),
            _covers(_world(fixed), _chosen(_learnt(fixed, 20), warm), 200),
        )
        for warm in (1.0, 0.0)
    ]
    return _beyond(pairs)


@claim(
    f"On `{NARROW}` 20 steps with shared intentions cover more than without them, drawn and greedily, beyond the "
    "interval of the difference over 200 unseen episodes (1 seed).",
    "section V",
    slow=True,
)
def intentions_help_where_robots_hear_further_than_they_see() -> Finding:
    world, both, silent = _world(NARROW), _learnt(NARROW, 20), _learnt(NARROW, 20, sharing=False)
    pairs = [tuple(_covers(world, _chosen(policy, warm), 200) for policy in (both, silent)) for warm in (1.0, 0.0)]
    return _beyond(pairs)


def _beyond(pairs: Sequence[tuple[Floats, ...]]) -> Finding:
    """Whether the first of each pair of covers, drawn and greedy, is the larger one beyond the interval."""
    means = {
        f"{name}_{way}": float(covers.mean())
        for way, pair in zip(("drawn", "greedy"), pairs, strict=True)
        for name, covers in zip(("with", "without"), pair, strict=True)
    }
    return Finding(all(_lower(first - second) > 0 for first, second in pairs), say(**means))


def _figures(run: ShippedRun) -> dict[str, float]:
    actor = cast(ControlPolicy, run.parts.lead.policy).module.actor
    assert isinstance(actor, CellScores)
    return {"actors that read intentions": float(actor.sharing)}


claim.shipped(DYNAMIC_COALITION_MRTA, "hooks", sees=_figures)

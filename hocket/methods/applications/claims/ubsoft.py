"""Claims about soft ground without a border."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.teams import trained
from hocket.methods.applications.ubsoft import (
    BLADE,
    LEVEL,
    REPOSE,
    SIDE,
    Array,
    Blades,
    Block,
    Ground,
    Push,
    earned,
    places_of,
    planned,
    pushed,
    slid,
)

claim = Claims("ubsoft", "the abstract; the ground is our own")

KEY = Key.of(0).derive("sand")
LIVE = np.ones(1, bool)


def _walked(world: Push, moves: Array) -> Blades:
    """A copy after these moves `[T, 2]`."""
    book = world.open(1)
    book.reset([0], [0])
    for move in moves:
        book.step([move[None]], LIVE)
    return book


def _tour(count: int) -> Array:
    """Moves `[count, 2]` that turn slowly by drawn angles, out and back."""
    angles = KEY.derive("tour").numpy().normal(0, 0.5, count).cumsum()
    way = np.stack([np.cos(angles), np.sin(angles)], 1)
    return np.concatenate([way, -way[::-1]])


@claim("No sand is made or lost, through strokes and slides and blocks that are frozen and made fine again, to 1e-9.")
def no_sand_is_made_or_lost() -> Finding:
    book, frozen, melted, worst = Push().open(1), set[Block](), 0, 0.0
    book.reset([0], [0])
    for move in _tour(40):
        book.step([move[None]], LIVE)
        ground = book.grounds[0]
        melted += len(frozen - ground.frozen.keys())
        frozen, worst = set(ground.frozen), max(worst, abs(ground.excess))
    moved = float(np.abs(ground.window - LEVEL).sum())
    return Finding(worst < 1e-9 and melted > 5 and moved > 10, say(excess=worst, made_fine_again=melted, moved=moved))


@claim(
    "However far the blade goes, as many cells are simulated; of a way of 400 cells 2 numbers a cell of it are kept at "
    "most, where the same width of fine cells would be 24, and none of ground that nothing touched."
)
def the_cost_follows_the_blade() -> Finding:
    ground, far = Ground(), Ground()
    sizes_kept = list[int]()
    for step in range(400):
        place = np.array([float(step), 0.0])
        ground.follow(place)
        ground.window = pushed(ground.window[None], places_of([ground]) - place, np.array([[1.0, 0.0]]))[0]
        sizes_kept.append(ground.numbers)
        far.follow(1000 * place)
    sizes = {ground.window.size, far.window.size}
    holds = (
        sizes == {24 * 24}
        and sizes_kept[-1] - 576 < 2 * 400
        and sizes_kept[200] < sizes_kept[-1]
        and far.numbers == 576
    )
    return Finding(holds, say(simulated=ground.window.size, kept=sizes_kept[-1], untouched=far.numbers - 576))


@claim("One slide and one stroke are those of loops over cells, to 1e-12.")
def a_slide_and_a_stroke_are_those_of_loops() -> Finding:
    size, draw, off = 12, KEY.derive("loops").numpy(), 0.0
    for way in ((0.8, 0.0), (0.5, -0.9), (0.0, 0.0)):
        heights = draw.random((size, size)) * 3
        body = np.array([6.2, 5.1])
        wanted, pile, front = heights.copy(), 0.0, []
        for row, column in itertools.product(range(size), repeat=2):
            across, up = row + 0.5 - body[0], column + 0.5 - body[1]
            distance = math.hypot(across, up)
            ahead = across * way[0] + up * way[1]
            if distance <= BLADE and way != (0.0, 0.0) and heights[row, column] > 0.5:
                pile += heights[row, column] - 0.5
                wanted[row, column] = 0.5
            elif BLADE < distance <= BLADE + 1.5 and ahead > 0.5 * math.hypot(*way) * distance:
                front.append((row, column))
        for cell in front:
            wanted[cell] += pile / len(front)
        ticks = np.arange(size) + 0.5
        offsets = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1)[None] - body
        off = max(off, float(np.abs(pushed(heights[None], offsets, np.array([way]))[0] - wanted).max()))
        for turned in (False, True):
            along = wanted.T if turned else wanted
            before = along.copy()
            for row, column in itertools.product(range(size - 1), range(size)):
                drop = before[row + 1, column] - before[row, column]
                flow = 0.25 * math.copysign(max(abs(drop) - 0.7, 0.0), drop)
                along[row, column] += flow
                along[row + 1, column] -= flow
        off = max(off, float(np.abs(slid(pushed(heights[None], offsets, np.array([way])))[0] - wanted).max()))
    return Finding(off < 1e-12, say(off=off))


@claim("Sand that slides comes to rest at the angle of repose, and a heap that is no steeper does not move.")
def sand_comes_to_rest_at_the_angle_of_repose() -> Finding:
    heap = np.zeros((1, 24, 24))
    heap[0, 10:14, 10:14] = 8.0
    start = heap.sum()
    for _ in range(2000):
        heap = slid(heap)
    steepest = max(float(np.abs(np.diff(heap, axis=axis)).max()) for axis in (1, 2))
    gentle = 0.69 * np.abs(np.arange(24) - 12.0)[None, :, None] + np.zeros((1, 24, 24))
    still = float(np.abs(slid(gentle) - gentle).max())
    holds = abs(steepest - REPOSE) < 1e-3 and still == 0 and abs(heap.sum() - start) < 1e-9
    return Finding(holds, say(steepest=steepest, moved=still))


@claim(
    "On a way that does not come back the fine blocks are those of a window that holds the whole way, to 1e-9; who "
    "comes back finds the means of what was left, and no longer its details."
)
def the_fine_blocks_are_those_of_a_wide_window() -> Finding:
    moves = np.stack([np.full(18, 0.9), 0.4 * np.sin(np.arange(18) / 4)], 1)
    shown = dict[str, float]()
    for name, way in (("out", moves), ("back", np.concatenate([moves, -moves[::-1]]))):
        near, wide = (_walked(Push(length=36, reach=reach), way).grounds[0] for reach in (1, 6))
        first = [at - start for at, start in zip(near.corner, wide.corner, strict=True)]
        part = wide.window[first[0] : first[0] + 24, first[1] : first[1] + 24]
        shown[name] = float(np.abs(near.window - part).sum() / np.abs(part - LEVEL).sum())
        assert near.frozen
        assert not wide.frozen
    return Finding(shown["out"] < 1e-9 < shown["back"] < 0.5, say(**shown))


@claim("A return is the sand beyond the level on cells near the target, counted cell by cell, in units of 10.")
def a_return_is_the_sand_near_the_target() -> Finding:
    off, most = 0.0, 0.0
    for away, sign in ((7.0, 1.0), (18.0, 1.0), (5.0, -1.0)):
        world = Push(length=14, away=away, fixed=True)
        goal = np.array([away * math.cos(0.6), away * math.sin(0.6)])
        moves = np.tile(sign * goal / away, (14, 1)) * 0.6
        # The last leaves the heap behind, so that it is frozen.
        moves[10:] = [-1.0, -1.0] if sign > 0 else moves[10:]
        total, ground = float(earned(world, 0, moves[None])[0]), _walked(world, moves).grounds[0]
        counted = 0.0
        for across, up in itertools.product(range(-40, 41), repeat=2):
            if math.hypot(across + 0.5 - goal[0], up + 0.5 - goal[1]) > 3:
                continue
            block, corner = (across // SIDE, up // SIDE), ground.corner
            row, column = across - corner[0], up - corner[1]
            if 0 <= row < 24 and 0 <= column < 24:
                counted += float(ground.window[row, column]) - 1
            elif block in ground.frozen:
                counted += float(ground.frozen[block][across % SIDE // 4, up % SIDE // 4]) - 1
        off, most = max(off, abs(total - counted / 10)), max(most, abs(counted))
    return Finding(off < 1e-9 and most > 1, say(off=off, most=most))


@claim(
    "On one task the cross-entropy method finds moves in 384 rollouts that earn more than four times what PPO as "
    "shipped does after as many; PPO comes as far as the least of three searches, within a tenth, after 2,560.",
    slow=True,
    learns=True,
)
def a_search_finds_moves_in_fewer_rollouts() -> Finding:
    world, finds = Push(fixed=True), list[float]()
    for seed in range(3):
        moves, path = planned(world, 0, 12, 32, key=Key.of(seed).derive("search"))
        finds.append(float(earned(world, 0, moves[None])[0]))
        assert abs(finds[-1] - path[-1]) < 1e-12
    run = trained("ppo", "push?fixed=true", 0, 40)
    short = float(np.mean(run.path[4:6]))
    holds = min(finds) > 4 * short and run.score > 0.9 * min(finds)
    return Finding(holds, say(search=finds, ppo_after_384=short, ppo_after_2560=run.score, ppo_first=run.path[0]))

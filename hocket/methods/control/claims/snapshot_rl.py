"""Snapshot RL's claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.base.ppo import PPO
from hocket.methods.control.snapshot_rl.method import SNAPSHOT_RL, Snapshots, SnapshotStarts, Starts, clusters
from hocket.methods.control.snapshot_rl.world import LockedDoors
from hocket.recipe import Recipe
from hocket.rollout.joint import JointPlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step

claim = Claims("snapshot-rl", "arXiv:2403.00673")
HOOK = cast(Snapshots, SNAPSHOT_RL.hooks[0])


def _parts(recipe: Recipe, name: str = "doors:10", seed: int = 0, **settings: Any) -> RunContext:
    task = tasks.find(name)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", name), ("recipe", recipe), ("seed", seed), *more], task), task)


def _every_door(count: int) -> Starts:
    """One state for each door."""
    course = LockedDoors(count).open(count)
    course.reset(range(count), range(count))
    cast(Any, course).door[:] = np.arange(count)
    return Starts([course.snapshot(slot) for slot in range(count)], np.eye(count), np.arange(count))


def _first_reward(course: JointEnvironment, width: int, rounds: int, luck: np.random.Generator) -> float:
    """Episodes of even odds for each that is paid."""
    paid = 0
    for number in range(rounds):
        course.reset(range(width), range(number * width, (number + 1) * width))
        live = np.ones(width, bool)
        while live.any():
            moved = course.step([luck.integers(0, 3, width)], live)
            paid += int((moved.rewards[:, 0] * live).sum())
            live &= ~(moved.terminated | moved.truncated)[:, 0]
    return width * rounds / max(paid, 1)


@claim(
    "Even odds take 3^n episodes to the first reward behind n doors, and from a state drawn evenly 2 n: with 4, 6 and "
    "8 doors as counted.",
    "derived",
)
def from_snapshots_the_first_reward_takes_a_number_of_episodes_that_grows_in_a_line() -> Finding:
    off, figures, luck = 0.0, dict[str, str](), Key.of(0).numpy()
    for count in (4, 6, 8):
        starts = _every_door(count)
        expected = count / sum(3.0**-length for length in range(1, count + 1))
        measured = _first_reward(SnapshotStarts(LockedDoors(count), starts, 1.0, 0).open(1000), 1000, 8, luck)
        off = max(off, abs(measured / expected - 1))
        figures[f"doors {count}"] = f"{measured:.1f} of {expected:.1f}"
    plain = _first_reward(LockedDoors(4).open(1000), 1000, 8, luck)
    off = max(off, abs(plain / 81 - 1) / 2)
    return Finding(off < 0.2, say(**figures, plain=f"{plain:.0f} of 81"))


@claim(
    "A share of the episodes begins in a kept state, others at the start; clusters come up equally often though one "
    "holds most states, and a state as often as others of its cluster; the seed decides.",
    "section 4",
)
def clusters_come_up_equally_often() -> Finding:
    states, cluster = _every_door(10), np.array([0] * 6 + [1, 1, 2, 2])
    starts = replace(states, cluster=cluster)
    course = cast(Any, SnapshotStarts(LockedDoors(10), starts, 0.8, 0).open(3000))
    course.reset(range(3000), range(3000))
    door = course._course.door.copy()
    share = np.bincount(door, minlength=10) / 3000
    expected = 0.8 / 3 / np.bincount(cluster)[cluster]
    expected[0] += 0.2
    off = float(np.abs(share - expected).max())
    course.reset(range(3000), range(3000))
    again = bool((course._course.door == door).all())
    return Finding(off < 0.03 and again, say(off=off, again=again))


@claim(
    "An episode from a snapshot is truncated after `cut` steps unless it ended before, one from the start never is.",
    "section 4",
)
def an_episode_from_a_snapshot_is_cut() -> Finding:
    world, wrong, cut = LockedDoors(10), 0, 0
    course = cast(Any, SnapshotStarts(world, _every_door(10), 0.5, 3).open(400))
    course.reset(range(400), range(400))
    begun, right = course._course.door.copy(), np.array(world.right)
    restored = course.left == 3
    live, lasted = np.ones(400, bool), np.zeros(400, int)
    while live.any():
        lasted += live
        moved = course.step([right[np.minimum(course._course.door, 9)]], live)
        over = moved.truncated[:, 0] & live
        wrong += int((over & ((lasted != 3) | ~restored | moved.terminated[:, 0])).sum())
        cut += int(over.sum())
        live &= ~(moved.terminated | moved.truncated)[:, 0]
    wrong += int((lasted != np.where(restored, np.minimum(3, 10 - begun), 10)).sum())
    return Finding(wrong == 0 and cut > 100 and restored.any() and not restored.all(), say(wrong=wrong, cut=cut))


@claim("k-means: no point is nearer to the mean of another cluster, in units of each dimension's deviation.")
def no_point_is_nearer_to_another_cluster() -> Finding:
    rng, off, sizes = Key.of(1).numpy(), 0.0, set[int]()
    for number in range(8):
        middle = rng.normal(size=(5, 3)) * 6
        points = (middle[rng.integers(0, 5, 200)] + rng.normal(size=(200, 3))) * np.array([1.0, 100.0, 0.01])
        cluster = clusters(points, 5, Key.of(number).numpy())
        scaled = points / points.std(0)
        means = np.stack([scaled[cluster == number].mean(0) for number in np.unique(cluster)])
        distance = ((scaled[:, None] - means) ** 2).sum(-1)
        distances = distance[np.arange(200), np.unique(cluster, return_inverse=True)[1]]
        off = max(off, float((distances - distance.min(1)).max()))
        sizes.add(len(means))
    few = clusters(np.repeat(np.eye(3), 20, 0), 10, rng)
    return Finding(off < 1e-9 and max(sizes) == 5 and len(set(few.tolist())) == 3, say(off=off, clusters=max(sizes)))


@claim("What a teacher passes is kept once, the same in a resumed run, and after the last step nothing is restored.")
def what_a_teacher_passes_is_kept() -> Finding:
    parts = _parts(SNAPSHOT_RL)
    memory = run_async(HOOK.before(parts, 1, {}))
    again = run_async(HOOK.before(parts, 7, HOOK.state(memory, parts)))
    starts: Starts = memory["starts"]
    same = np.array_equal(starts.seen, again["starts"].seen) and np.array_equal(starts.cluster, again["starts"].cluster)
    unchanged = run_async(HOOK.before(parts, 2, memory)) is memory
    first = HOOK.seat(parts.player, parts, HOOK.until, memory)
    last = HOOK.seat(parts.player, parts, HOOK.until + 1, memory)
    doors = set(starts.seen.argmax(1).tolist())
    idle = run_async(HOOK.before(parts, HOOK.until + 1, {})) == {}
    worlds = isinstance(cast(JointPlayer, first).world, SnapshotStarts), last is parts.player
    held = same and unchanged and idle and all(worlds) and doors == set(range(10)) and len(starts.members) == 10
    return Finding(held, say(states=len(starts.states), doors=len(doors), clusters=len(starts.members)))


@claim(
    "Of ten doors PPO opens all in no unseen episode after 60 steps; with snapshots, which end at step 30, in all.",
    "section 5",
    slow=True,
    learns=True,
)
def with_snapshots_all_doors_open() -> Finding:
    opened: dict[str, float] = {}
    for recipe in (SNAPSHOT_RL, PPO):
        parts = _parts(recipe)
        for step in range(1, 61):
            run_async(train_step(parts, step))
        opened[recipe.name] = run_async(parts.evaluate(40, key=Key.of(0)))
    held = opened["snapshot-rl"] == 1.0 and opened["ppo"] == 0.0
    return Finding(held, say(snapshots=opened["snapshot-rl"], ppo=opened["ppo"]))


def _restored(shipped: ShippedRun) -> dict[str, float]:
    """Episodes that began behind the first door."""
    every = [episode for result in shipped.results if result.experience for episode in result.experience.trajectories]
    behind = [episode for episode in every if np.asarray(episode.turns[0].observation)[0, 0] == 0]
    return {"behind the first door": float(len(behind))}


claim.shipped(SNAPSHOT_RL, "hooks", steps=2, sees=_restored)

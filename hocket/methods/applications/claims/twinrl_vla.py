"""Claims about a twin that widens and guides what is explored in reality."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.credit.forced_decisions import TaughtToo
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.methods.applications.twinrl_vla.method import TWINRL_VLA, TwinFirst, informative
from hocket.methods.applications.twinrl_vla.world import CELLS, LENGTH, SHOWN, Array, Reach, Starts, cells
from hocket.objectives.imitation import Imitation
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointPlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Evaluation

claim = Claims("twinrl-vla", "the abstract; losses, odds and the world are our own")

KEY = Key.of(0).derive("twin")
HOOK = cast(TwinFirst, TWINRL_VLA.hooks[0])
BELOW = Starts(tuple(float(cell // CELLS[0] < CELLS[1] // 2) for cell in range(CELLS[0] * CELLS[1])))
"""The lower half, in which nobody has demonstrated."""


def _begun(seed: int = 0, **settings: Any) -> RunContext:
    """A run as `hocket train` configures it; `settings` are of the hook."""
    task = tasks.find("reach")
    changed = {"seed": seed, **{f"hooks.0.{name}": value for name, value in settings.items()}}
    return build_parts(configured(TWINRL_VLA, "reach", task, changed), task)


def _success(parts: RunContext, starts: Starts, count: int = 100) -> float:
    """The share of real episodes that a policy solves greedily."""
    policy, live, won = cast(ControlPolicy, parts.lead.policy), np.ones(count, bool), np.zeros(count, bool)
    course, cold = Reach(starts=starts).open(count), np.zeros(count, np.float32)
    course.reset(range(count), range(1, 2 * count, 2))
    while live.any():
        actions = policy.sample(course.seen()[0], np.full((count, policy.draws), 0.5), cold)[0]
        moved = course.step([actions], live)
        won |= moved.terminated[:, 0] & live
        live &= ~(moved.terminated | moved.truncated)[:, 0]
    return float(won.mean())


def _moved(world: Reach, place: Array, action: Array) -> Array:
    """Where one point goes, in plain words."""
    angle, size, gate = (0.0, 0.08, 0.4) if world.twin else (0.3, 0.08 * 0.85, 0.52)
    x, y = (max(-1.0, min(1.0, float(value))) for value in action)
    right = size * (math.cos(angle) * x - math.sin(angle) * y)
    up = size * (math.sin(angle) * x + math.cos(angle) * y)
    there = [max(-1.0, min(1.0, place[0] + right)), max(-1.0, min(1.0, place[1] + up))]
    if (place[0] < 0) != (there[0] < 0) and abs(place[1] - place[0] / right * up - gate) > 0.1:
        there[0] = place[0]
    return np.array(there)


@claim(
    "Twin and reality move as in plain words. A person who knows a world reaches the goal from all starts, and takes "
    "over too late from nowhere: with the moments that are needed and 2 more there is time."
)
def worlds_move_as_in_plain_words() -> Finding:
    off, late, solved = 0.0, 0, dict[str, float]()
    draw = KEY.derive("moves").numpy()
    for twin in (True, False):
        world = Reach(twin)
        course = world.open(400)
        course.reset(range(400), range(400))
        for _ in range(3):
            course.place = draw.uniform(-0.99, 0.99, (400, 2))
            course.place[::2, 0] = draw.uniform(-0.06, 0.06, 200)
            actions, before = 1.5 * draw.normal(size=(400, 2)), course.place.copy()
            course.step([actions], np.ones(400, bool))
            wanted = [_moved(world, *pair) for pair in zip(before, actions, strict=True)]
            off = max(off, float(np.abs(course.place - np.array(wanted)).max()))
        course.reset(range(400), range(400))
        needed, live, won = world.needs(course.seen()[0]), np.ones(400, bool), np.zeros(400, bool)
        for time in range(LENGTH):
            moved = course.step([world.shown(course.seen()[0])], live)
            arrived = moved.terminated[:, 0] & live
            late += int((arrived & (time + 1 > needed + 2)).sum())
            won |= arrived
            live &= ~arrived & ~moved.truncated[:, 0]
        solved["twin" if twin else "reality"] = float(won.mean())
    return Finding(off < 1e-9 and late == 0 and min(solved.values()) == 1.0, say(off=off, late=late, **solved))


@claim(
    "Odds of starts are p (1 - p) by cell, each with one more success and failure, so that those which always or never "
    "succeed come up least; episodes begin in cells by these odds."
)
def starts_are_those_that_fail_at_times() -> Finding:
    parts = _begun(warm=0, twin=0, probes=300)
    memory = run_async(HOOK.before(parts, HOOK.warm + HOOK.twin + 1, {}))
    again = run_async(HOOK.before(parts, HOOK.warm + HOOK.twin + 1, {}))
    joint = cast(JointPlayer, parts.player)
    player = replace(joint, world=replace(cast(Reach, joint.world), twin=True), _open=[])
    scenarios = [parts.task.scenario("train", number) for number in range(HOOK.probes)]
    played = run_async(
        player.play([Assignment(item) for item in scenarios], key=parts.key.derive("probes", HOOK.warm + HOOK.twin + 1))
    )
    counts = np.ones((CELLS[0] * CELLS[1], 2))
    for item in played:
        x, y = np.asarray(item.turns[0].observation)[0, :2].astype(float)
        cell = int((x + 0.9) / 0.6 * 4) + 4 * int((y + 0.9) / 1.8 * 12)
        counts[cell, int(not item.terminated)] += 1
    wanted = counts.prod(1) / counts.sum(1) ** 2
    off = float(np.abs(np.array(memory["odds"]) - wanted).max() + np.abs(informative(played) - wanted).max())
    odds = KEY.derive("odds").numpy().random(CELLS[0] * CELLS[1])
    begun = cells(np.array([Starts(tuple(odds)).place(seed) for seed in range(6000)]))
    share = np.bincount(begun, minlength=len(odds)) / 6000
    far = float(np.abs(share - odds / odds.sum()).max())
    return Finding(off < 1e-9 and far < 0.012 and memory == again, say(off=off, share_off=far))


@claim(
    "The steps: imitation of reality's upper half and the whole twin in turn, then the twin alone, then reality from "
    "chosen starts, in every second step of which a person is beside; evaluation is in reality."
)
def steps_are_in_the_world_that_they_should_be_in() -> Finding:
    parts, wrong = _begun(), 0
    odds = [1.0] * (CELLS[0] * CELLS[1])
    for step in range(1, 41):
        player = cast(JointPlayer, HOOK.seat(parts.player, parts, step, {"odds": odds} if step > 28 else {}))
        world, guided = cast(Reach, player.world), type(player).__name__ == "GuidedPlayer"
        twin = step <= 28 and (step > 12 or step % 2 == 0)
        starts = SHOWN if step <= 12 and step % 2 else Starts(tuple(odds)) if step > 28 else Starts()
        wrong += int(world != Reach(twin, starts)) + int(guided != (step <= 12 or (step > 28 and step % 2 == 0)))
    upper = all(SHOWN.place(seed)[1] >= 0 for seed in range(500))
    real = cast(JointPlayer, parts.player).world == Reach()
    return Finding(wrong == 0 and upper and real, say(wrong=wrong))


@claim(
    "A person's decisions are imitated and none else: the loss is minus the sum of their log-probs over the number of "
    "all decisions, their advantage 0, and other decisions' advantages those of GAE."
)
def a_persons_decisions_are_imitated() -> Finding:
    parts = _begun(warm=0, twin=0, targeted=False, beside=1)
    batch = run_async(train_step(parts, 1)).batch
    assert batch is not None
    forced = batch.forced.numpy()
    views = np.concatenate([np.asarray(item, np.float32) for item in batch.observation])
    late = LENGTH * views[:, 2] - Reach().needs(views) < 2
    # As it comes from the rollout: what is forced has no weight.
    recorded, credit = batch.occurrences, TaughtToo()
    raw = batch.but(occurrences=replace(recorded, weight=(~batch.forced[recorded.decision]).to(recorded.weight.dtype)))
    occurrences, plain = credit(raw), credit.of(raw)
    count = len(occurrences.decision)
    logp = torch.linspace(-3, 1, batch.decisions, dtype=torch.float64, requires_grad=True)
    credited = batch.but(occurrences=occurrences)
    loss = Imitation()(Evaluation(logp), credited).total()
    (gradient,) = torch.autograd.grad(loss, logp)
    off = abs(float(loss.detach()) + float((logp.detach().numpy() * forced).sum()) / count)
    off = max(off, float(np.abs(gradient.numpy() + forced / count).max()))
    taught = forced[occurrences.decision.numpy()]
    apart = float((occurrences.advantage - plain.advantage).abs().max()) + float(
        occurrences.advantage[taught].abs().max()
    )
    complete = bool((occurrences.weight == 1).all()) and bool((recorded.weight == 1).all())
    holds = off < 1e-9 and apart == 0 and complete and np.array_equal(forced, late) and 0 < forced.mean() < 1
    return Finding(holds, say(off=off, taught=float(forced.mean())))


@functools.cache
def _episodes(seed: int, most: int, **settings: Any) -> float:
    """Real episodes after demonstrations until .9 of the lower half is solved twice in a row; infinite without that."""
    parts = _begun(seed, **settings)
    hook = cast(TwinFirst, parts.lead.recipe.hooks[0])
    first, before = hook.warm + hook.twin, 0.0
    for step in range(1, first + most + 1):
        run_async(train_step(parts, step))
        if step >= first:
            solved = _success(parts, BELOW)
            if min(before, solved) >= 0.9:
                return 32.0 * (step - first)
            before = solved
    return math.inf


PLAIN = {"widened": False, "twin": 0, "targeted": False}


@claim(
    "As shipped it needs at least 30 % fewer real episodes than the same learner without a twin until .9 of the half "
    "is solved in which nobody demonstrated (2 seeds; 640 at most).",
    slow=True,
    learns=True,
)
def with_a_twin_fewer_real_episodes_are_needed() -> Finding:
    ours = [_episodes(seed, 20) for seed in range(2)]
    # Without a twin there are as many steps of the warm-up, all of the person's.
    theirs = [_episodes(seed, 20, **PLAIN) for seed in range(2)]
    holds = all(mine <= 0.7 * other for mine, other in zip(ours, theirs, strict=True)) and max(ours) < math.inf
    return Finding(holds, say(with_twin=ours, without=theirs))


@claim(
    "Over 2 seeds it needs fewer real episodes than without RL in the twin, and than where real episodes begin evenly.",
    slow=True,
)
def each_use_of_the_twin_saves_real_episodes() -> Finding:
    arms: dict[str, dict[str, Any]] = {"whole": {}, "no RL in the twin": {"twin": 0}, "even": {"targeted": False}}
    needed = {name: sum(_episodes(seed, 20, **settings) for seed in range(2)) for name, settings in arms.items()}
    return Finding(needed["whole"] < min(needed["no RL in the twin"], needed["even"]), say(**needed))


claim.shipped(TWINRL_VLA, "hooks")

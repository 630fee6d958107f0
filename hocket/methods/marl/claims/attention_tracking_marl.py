"""Claims on attention over targets, soft values and the mask."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.attention_by_hand import held, linear, normal
from hocket.methods.marl.attention_tracking_marl.method import ATTENTION_TRACKING
from hocket.methods.marl.attention_tracking_marl.network import TargetAttention, TargetRows
from hocket.methods.marl.attention_tracking_marl.tracking import ACTIONS, BLUR, DOUBT, JOLT, PERIOD, ROW, Tracking
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.rollout.joint import JointPlayer
from hocket.rollout.transitions import batch_of_rows
from hocket.tasks.joint import JointTask, PolicySpaces
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding

claim = Claims("attention-tracking-marl", "arXiv:2011.08055")
Array = NDArray[np.float64]
ALPHA, GAMMA = 0.1, 0.95
CLOSE = 5e-5


# ---------------------------------------------------------------- the network and its values


@claim("Values do not depend on the order of targets, and one network reads 1 to 50 of them, in float64.")
def values_do_not_depend_on_the_order_of_targets() -> Finding:
    network = TargetAttention(ROW, (16, 16), 12, last_gain=1.0, key=Key.of(0)).double()
    rng, off, moved = Key.of(1).numpy(), 0.0, math.inf
    with torch.no_grad():
        for count in (1, 2, 4, 20, 50):
            rows = rng.normal(size=(6, count, ROW))
            mixed, other = rows[:, rng.permutation(count)], rows.copy()
            other[:, 0, 0] += 1.0
            plain, permuted, changed = (
                network(torch.from_numpy(sight.reshape(6, -1))).numpy() for sight in (rows, mixed, other)
            )
            off = max(off, float(np.abs(plain - permuted).max() / np.abs(plain).max()))
            moved = min(moved, float(np.abs(plain - changed).max()))
    return Finding(off < 1e-12 and moved > 1e-6, say(off=off, moved_by_a_change=moved))


def _policy(targets: int, seed: int) -> ControlPolicy:
    sight = TargetRows(targets, ROW, len(ACTIONS))
    spaces = PolicySpaces(targets * ROW, len(ACTIONS), discrete=True, joint=0, sight_form=sight)
    policy = ControlPolicy(spaces, key=Key.of(seed), network=NetworkSettings(hidden=(8, 8)))
    for part in ATTENTION_TRACKING.policy_parts:
        part.install(policy)
    rng = Key.of(seed).derive("moved").torch()
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=rng))
    return policy


def _rows(targets: int, seed: int, count: int = 40) -> Batch:
    rng = Key.of(seed).derive("rows").numpy()
    sights = rng.normal(size=(2, count, targets * ROW)).astype(np.float32)
    columns: dict[str, NDArray[Any]] = {
        "observed": sights[0],
        "following": sights[1],
        "action": rng.integers(0, len(ACTIONS), count),
        "logp": np.zeros(count, np.float32),
        "paid": rng.normal(size=count).astype(np.float32),
        "goes_on": (GAMMA * (rng.random(count) < 0.7)).astype(np.float32),
    }
    drawn = batch_of_rows(["policy"], [columns], [np.arange(count)], [np.ones(count)], Key.of(seed))
    return drawn.but(occurrences=ATTENTION_TRACKING.credit(drawn))


def _by_hand(policy: ControlPolicy, network: str, seen: NDArray[Any]) -> Array:
    """Both networks' values of every action, one state after the other, in float64: `[B, 2, A]`."""
    holder = cast(Any, SimpleNamespace(module=SimpleNamespace(actor=getattr(policy.module, network))))
    values = np.zeros((len(seen), 2, len(ACTIONS)))
    for state, row in enumerate(seen):
        for twin, name in enumerate(("first", "second")):
            x = linear(holder, f"{name}.into", row.astype(np.float64).reshape(-1, ROW))
            for block in range(2):
                x = _block(holder, f"{name}.blocks.{block}.", x)
            h = x.sum(0)
            for layer in range(2):
                weight, bias = (held(holder, f"{name}.after.{part}.{layer}") for part in ("weights", "biases"))
                h = weight @ h + bias
                h = np.maximum(h, 0) if layer == 0 else h
            values[state, twin] = h
    return values


def _block(holder: Any, name: str, x: Array) -> Array:
    """Each target reads all: `x_j + out(sum_l softmax_l(q_j k_l / sqrt(d)) v_l)`, and then a perceptron."""
    query, keys, read = np.split(linear(holder, f"{name}joint", normal(holder, f"{name}first", x)), 3, 1)
    attended = np.zeros_like(query)
    for j in range(len(x)):
        weight = np.array([math.exp(float(query[j] @ keys[k]) / math.sqrt(x.shape[1])) for k in range(len(x))])
        attended[j] = (weight / weight.sum()) @ read
    x = x + linear(holder, f"{name}out", attended)
    wide = np.maximum(linear(holder, f"{name}wide", normal(holder, f"{name}second", x)), 0)
    after: Array = x + linear(holder, f"{name}narrow", wide)
    return after


@claim(
    "The loss is that of soft double Q-learning with values by attention, and the policy the softmax of their mean "
    "over the temperature, computed state by state from the weights in float64.",
    "the authors' code",
)
def the_loss_is_that_of_soft_double_q_learning() -> Finding:
    losses, odds = 0.0, 0.0
    for seed, targets in ((0, 3), (1, 5)):
        policy, batch = _policy(targets, seed), _rows(targets, seed)
        evaluation = policy.evaluate(batch, ATTENTION_TRACKING.needs)
        (loss,) = ATTENTION_TRACKING.losses
        present = _by_hand(policy, "actor", batch.observation[0])
        following = batch.annotations["following"].numpy()
        later, slow = (_by_hand(policy, name, following) for name in ("actor", "slow"))
        paid, goes_on = (batch.annotations[name].double().numpy() for name in ("paid", "goes_on"))
        total = 0.0
        for row, action in enumerate(batch.action.tolist()):
            logp = _log_softmax((later[row, 0] + later[row, 1]) / (2 * ALPHA))
            soft = sum(math.exp(logp[a]) * (min(slow[row, :, a]) - ALPHA * logp[a]) for a in range(len(ACTIONS)))
            for twin in range(2):
                error = abs(present[row, twin, action] - paid[row] - goes_on[row] * soft)
                total += (0.5 * error**2 if error < 1 else error - 0.5) / len(paid)
            mine = _log_softmax(present[row].mean(0) / ALPHA)[action]
            odds = max(odds, abs(float(evaluation.logp[row].detach()) - mine))
        losses = max(losses, abs(float(loss(evaluation, batch).total().detach()) / total - 1))
    return below(CLOSE, loss=losses, log_probs=odds / 10)


def _log_softmax(logits: Array) -> Array:
    top = logits.max()
    return np.asarray(logits - top - math.log(np.exp(logits - top).sum()))


# ---------------------------------------------------------------- the world


def _course(world: Tracking, width: int) -> Any:
    course = cast(Any, world.open(width))
    course.reset(range(width), range(width))
    return course


def _walked(world: Tracking, width: int, steps: int) -> Any:
    """A course after random moves."""
    course, rng = _course(world, width), Key.of(5).numpy()
    for _ in range(steps):
        course.step([rng.integers(0, len(ACTIONS), width) for _ in range(world.count)], np.ones(width, bool))
    return course


@claim(
    "Beliefs are those of a Kalman filter over place and velocity, four numbers, that each observer corrects in turn; "
    "the pay is -0.1 times the mean log-determinant of their covariances."
)
def beliefs_are_those_of_a_kalman_filter() -> Finding:
    world, width = Tracking(count=5, targets=3, side=16.0), 6
    course, rng = _course(world, width), Key.of(7).numpy()
    eye, move = np.eye(4), np.eye(4)
    move[:2, 2:] = PERIOD * np.eye(2)
    jolt = JOLT * np.kron(
        np.array([[PERIOD**3 / 3, PERIOD**2 / 2], [PERIOD**2 / 2, PERIOD]]),
        np.eye(2),
    )
    mean = np.concatenate([course.belief, course.drift], -1)
    cover = np.tile(DOUBT * eye, (width, 3, 1, 1))
    off, pay, several = 0.0, 0.0, 0
    for time in range(25):
        moved = course.step([rng.integers(0, len(ACTIONS), width) for _ in range(5)], np.ones(width, bool))
        for copy in range(width):
            dets = []
            for target in range(3):
                many = int(course.observed[copy, :, target].sum())
                several += many > 1
                mean[copy, target] = move @ mean[copy, target]
                cover[copy, target] = move @ cover[copy, target] @ move.T + jolt
                noise = course.noise[copy, time, 2, target] * BLUR / math.sqrt(max(many, 1))
                apart = rng.normal(size=(many, 2))
                for error in apart - apart.mean(0) if many else []:
                    measured = course.target[copy, target] + noise + error
                    spread = cover[copy, target][:2, :2] + BLUR**2 * np.eye(2)
                    gain = cover[copy, target][:, :2] @ np.linalg.inv(spread)
                    mean[copy, target] += gain @ (measured - mean[copy, target][:2])
                    cover[copy, target] = (eye - gain @ eye[:2]) @ cover[copy, target]
                dets.append(math.log(np.linalg.det(cover[copy, target])))
            pay = max(pay, abs(float(moved.rewards[copy, 0]) + 0.1 * float(np.mean(dets))))
        believed = np.concatenate([course.belief, course.drift], -1)
        off = max(off, float(np.abs(believed - mean).max()))
    return Finding(off < 1e-6 and pay < 1e-7 and several > 20, say(beliefs=off, pay=pay, several_observers=several))


@claim(
    "A pursuer sees distances and bearings of beliefs and how fast both change, by finite differences along its own "
    "motion, and observes what is within 10 metres and 45 degrees to either side."
)
def a_pursuer_sees_how_beliefs_lie_and_move() -> Finding:
    world, tick = Tracking(count=3, targets=4), 1e-5
    course = _walked(world, 30, 6)
    off, wrong, observed = 0.0, 0, 0
    for number, rows in enumerate(course.seen()):
        for copy, row in enumerate(rows.reshape(30, 4, ROW).astype(np.float64)):
            for target in range(4):
                place, heading = course.place[copy, number], course.heading[copy, number]
                lies = [
                    _lies(
                        course.belief[copy, target] + time * course.drift[copy, target],
                        place + time * course.velocity[copy, number],
                        heading + time * course.turning[copy, number],
                    )
                    for time in (-tick, 0.0, tick)
                ]
                far, angle = lies[1]
                turn = (lies[2][1] - lies[0][1] + math.pi) % (2 * math.pi) - math.pi
                expected = [far / 10, math.sin(angle), math.cos(angle), (lies[2][0] - lies[0][0]) / (2 * tick) / 3]
                expected.append(float(np.clip(turn / (2 * tick) / math.pi, -3, 3)))
                off = max(off, float(np.abs(row[target, :5] - expected).max()))
                true_far, true_angle = _lies(course.target[copy, target], place, heading)
                sees = true_far <= 10 and abs((true_angle + math.pi) % (2 * math.pi) - math.pi) <= math.pi / 4
                wrong += bool(row[target, 6]) != sees
                observed += int(sees)
    return Finding(off < 1e-3 and wrong == 0 and bool(observed > 20), say(off=off, wrong=wrong, observed=observed))


def _lies(target: Array, place: Array, heading: float) -> tuple[float, float]:
    east, north = (target - place).tolist()
    return math.hypot(east, north), math.atan2(north, east) - heading


@claim("A pursuer moves along an arc, as a thousand short straight ways lead.")
def a_pursuer_moves_along_an_arc() -> Finding:
    world, off = Tracking(count=len(ACTIONS), targets=1, side=100.0), 0.0
    course = _course(world, 3)
    place, heading = course.place.copy(), course.heading.copy()
    course.step([np.full(3, action) for action in range(len(ACTIONS))], np.ones(3, bool))
    for copy in range(3):
        for action, (pace, turn) in enumerate(ACTIONS.tolist()):
            (east, north), angle, tick = place[copy, action].tolist(), float(heading[copy, action]), PERIOD / 1000
            for _ in range(1000):
                east += tick * pace * math.cos(angle + turn * tick / 2)
                north += tick * pace * math.sin(angle + turn * tick / 2)
                angle += turn * tick
            off = max(off, math.dist((east, north), course.place[copy, action].tolist()))
    return below(1e-6, off=off)


@claim("With a mask of k a pursuer sees the k rows of the nearest beliefs, and the rows are those seen without it.")
def a_mask_leaves_the_rows_of_the_nearest_beliefs() -> Finding:
    masked, plain = (_walked(Tracking(count=3, targets=9, mask=mask), 8, 5) for mask in (4, 0))
    wrong, chosen = 0, set()
    for number, (few, every) in enumerate(zip(masked.seen(), plain.seen(), strict=True)):
        for copy in range(8):
            far = [math.dist(plain.belief[copy, target], plain.place[copy, number]) for target in range(9)]
            nearest = sorted(range(9), key=far.__getitem__)[:4]
            expected = every[copy].reshape(9, ROW)[nearest]
            wrong += not np.array_equal(few[copy].reshape(4, ROW), expected)
            chosen.add(tuple(sorted(nearest)))
    return Finding(wrong == 0 and len(chosen) > 5, say(wrong=wrong, different_masks=len(chosen)))


# ---------------------------------------------------------------- what is learnt


@functools.cache
def _learnt() -> RunContext:
    """The run of `hocket train --recipe attention-tracking-marl`, at its end."""
    task = tasks.find(str(ATTENTION_TRACKING.task))
    config = configure([("task", task.name), ("recipe", ATTENTION_TRACKING), ("seed", 0)], task)
    parts = build_parts(config, task)
    for step in range(1, 31):
        run_async(train_step(parts, step))
    return parts


@functools.cache
def _figures(settings: str, temperature: float = 1.0, episodes: int = 40) -> Array:
    """Shares of targets tracked in unseen episodes that the learnt team plays, `[episodes]`."""
    parts, name = _learnt(), f"track:targets{settings}"
    task = cast(JointTask, tasks.find(name))
    held = cast(ControlPolicy, parts.lead.policy)
    policy = ControlPolicy(task.spaces(task.world.agents), key=Key.of(9), network=held.network)
    for part in ATTENTION_TRACKING.policy_parts:
        part.install(policy)
    policy.module.load_state_dict(held.module.state_dict())
    seats = dict.fromkeys(task.world.agents, policy.name)
    player = replace(
        cast(JointPlayer, parts.player), world=task.world, seats=seats, policies={policy.name: policy}, _open=[]
    )
    decoding = Decoding(temperature=temperature)
    wanted = [Assignment(task.scenario("eval", number), samples=1, decoding=decoding) for number in range(episodes)]
    played = run_async(player.play(wanted, key=Key.of(0)))
    return np.array([task.describe(episode)["tracked"] for episode in played])


def _interval(values: Array) -> tuple[float, float]:
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


@claim(
    "As shipped, learnt with four pursuers and four targets: with twenty of each and a mask of four the share of "
    "targets tracked is that of four to within a tenth of it, or more; without the mask it is a quarter less at least, "
    "beyond both intervals.",
    "abstract",
    slow=True,
)
def with_the_mask_twenty_track_what_four_do() -> Finding:
    four = _figures("")
    masked, plain = (_figures(f"?agents=20&targets=20&mask={mask}", episodes=20) for mask in (4, 0))
    holds = masked.mean() > 0.9 * four.mean() and plain.mean() < 0.75 * masked.mean()
    apart = _interval(plain)[1] < min(_interval(masked)[0], _interval(four)[0])
    figures = {"four": four.mean(), "twenty_masked": masked.mean(), "twenty": plain.mean()}
    return Finding(bool(holds and apart), say(**{name: float(value) for name, value in figures.items()}))


@claim(
    "As shipped, where pursuers begin at one place, moves drawn by the softmax track more targets than the likeliest "
    "ones, in 200 episodes of equal starts beyond the interval of the difference; where they begin apart they do not.",
    "abstract",
    slow=True,
)
def drawn_moves_spread_pursuers_that_begin_together() -> Finding:
    gains: dict[str, Array] = {}
    for name, settings in (("together", "?together=true"), ("apart", "")):
        drawn, likeliest = (_figures(settings, temperature, 200) for temperature in (1.0, 0.0))
        gains[name] = drawn - likeliest
    held = _interval(gains["together"])[0] > 0 and _interval(gains["apart"])[0] <= 0
    means = {name: float(gain.mean()) for name, gain in gains.items()}
    return Finding(held, say(**means, interval=list(_interval(gains["together"]))))


claim.learns(ATTENTION_TRACKING, seeds=1)
claim.shipped(ATTENTION_TRACKING, without={"objective.values.temperature": 1e-3}, steps=3)

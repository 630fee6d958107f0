"""Claims about a controller that tracks references, and about homotopy that finds its demonstrations."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any, cast
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.methods.applications.dextrack import homotopy as search
from hocket.methods.applications.dextrack import method
from hocket.methods.applications.dextrack.homotopy import CHAINS, Controller, homotopy, played, searched, solved
from hocket.methods.applications.dextrack.method import DEXTRACK, Flywheel, TaughtPlayer, greedy
from hocket.methods.applications.dextrack.world import LENGTH, Array, Grip, Reference, reference
from hocket.methods.base.ppo import PPO
from hocket.objectives.imitation import Imitation
from hocket.objectives.value import ValueLoss
from hocket.recipe import Recipe
from hocket.rollout.joint import JointPlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment

claim = Claims("dextrack", "arXiv:2502.09614 and the authors' code; world, search and easier versions are our own")

KEY = Key.of(0).derive("grip")
WORLD = Grip()
HOOK = cast(Flywheel, DEXTRACK.hooks[0])


def still(observations: NDArray[np.float32]) -> Array:
    """No residuals: the hand goes where the reference says."""
    return np.zeros((len(observations), 3))


def _by_hand(wanted: Reference, actions: Array, gravity: float = 1.0) -> tuple[list[float], bool]:
    """The rewards of one attempt, and whether it tracks, in plain words."""
    (mass, width, offset), path = wanted.thing, wanted.path
    height, opening, tilt = path[0]
    up = wide = turned = place = angle = speed = spin = 0.0
    rewards, off_height, off_angle = list[float](), 0.0, 0.0
    weight, inertia = mass * 9.81 * gravity, mass * width**2 / 6
    for time, action in enumerate(actions, 1):
        a, b, c = (max(-1.0, min(1.0, float(value))) for value in action)
        up, wide, turned = up + 0.004 * a, wide + 0.0015 * b, turned + 0.05 * c
        later = [
            0.4 * old + 0.6 * new
            for old, new in zip((height, opening, tilt), path[time] + (up, wide, turned), strict=True)
        ]
        press = 1000 * max(0.0, width - later[1])
        along = mass * ((later[0] - height) / 0.05 - speed) / 0.05 + weight
        around = (inertia * ((later[2] - tilt) / 0.05 - spin) / 0.05 + weight * offset) / (width / 2)
        most = 2 * 0.6 * press if abs(later[0] - place) < 0.05 else 0.0
        share = min(1.0, most / max(math.hypot(along, around), 1e-12))
        speed += 0.05 * (share * along - weight) / mass
        spin += 0.05 * (share * around * width / 2 - weight * offset) / inertia
        place, angle = place + 0.05 * speed, angle + 0.05 * spin
        if place <= 0:
            place = angle = speed = spin = 0.0
        height, opening, tilt = later
        if press > 22:
            return [*rewards, *[0.0] * (LENGTH - len(rewards))], False
        far = (abs(place - path[time][0]), abs(angle - path[time][2]))
        hand = (
            abs(height - path[time][0]) / 0.02 + abs(opening - path[time][1]) / 0.02 + abs(tilt - path[time][2]) / 0.4
        )
        object_part = 0.7 * math.exp(-far[0] / 0.05 - far[1] / 0.4)
        rewards.append((object_part + 0.3 * math.exp(-hand)) / 32)
        if time > 8:
            off_height, off_angle = off_height + far[0] / 24, off_angle + far[1] / 24
    return rewards, off_height <= 0.02 and off_angle <= 0.15


@claim(
    "A hand, its object and the reward are as in plain words, with and without slipping, dropping and breaking; in an "
    "easier version too."
)
def a_hand_moves_as_in_plain_words() -> Finding:
    draw, off, wrong = KEY.derive("moves").numpy(), 0.0, 0
    seeds = np.arange(1, 81, 2)
    actions = draw.normal(0, 0.6, (40, LENGTH, 3))
    actions[:, :20, 1] -= draw.uniform(0, 2, (40, 1))
    counts = np.zeros(2)
    for gravity in (1.0, 0.4):
        tracks = played(Grip(gravity=gravity), seeds, actions)
        for row, seed in enumerate(seeds.tolist()):
            rewards, tracked = _by_hand(reference(seed), actions[row], gravity)
            off = max(off, float(np.abs(tracks.rewards[row] - rewards).max()))
            wrong += int(tracked != tracks.tracked[row])
            counts += rewards[-1] == 0.0, tracked
    holds = off < 1e-9 and wrong == 0 and bool((counts > 0).all())
    return Finding(holds, say(off=off, wrong=wrong, broken=counts[0], tracked=counts[1]))


def _replaying(actions: Array) -> Controller:
    """A controller that plays actions `[LENGTH, 3]` in turn, whatever it observes."""
    moments = iter(actions[:, None])
    return lambda observations: next(moments)


@claim(
    "Each link of a chain is searched around the best of the one before, in its own gravity, and the first around what "
    "the controller does; all chains have as many rounds. A search is the cross-entropy method, by plain loops."
)
def links_begin_where_the_one_before_ended() -> Finding:
    off = 0.0
    for number, chain in enumerate(((0.5, 1.0), (0.3, 0.6, 1.0))):
        key, act = KEY.derive("links", number), KEY.derive("act", number).numpy().normal(0, 0.3, (LENGTH, 3))
        act = act.clip(-1, 1)
        ours, tracked = homotopy(WORLD, 7, _replaying(act), chain, 7, 10, key)
        base = act
        rounds = {2: (3, 4), 3: (2, 2, 3)}[len(chain)]
        for link, gravity in enumerate(chain):
            mean, spread, best = base, np.full((LENGTH, 3), 0.3), -1.0
            for turn in range(rounds[link]):
                noise = key.derive(link).derive(turn).numpy().normal(size=(10, LENGTH, 3))
                tried = [np.clip(mean + spread * each, -1, 1) for each in noise]
                paid = [sum(_by_hand(reference(7), each, gravity)[0]) for each in tried]
                order = sorted(range(10), key=lambda row: -paid[row])
                if paid[order[0]] > best:
                    best, base = paid[order[0]], tried[order[0]]
                elite = np.stack([tried[row] for row in order[:2]])
                mean, spread = elite.mean(0), elite.std(0) + 0.02
        off = max(off, float(np.abs(ours - base).max()) + float(tracked != _by_hand(reference(7), base)[1]))
    return Finding(off < 1e-9, say(off=off))


@claim(
    "Homotopy solves what direct search does not: of 12 references, from no residuals and with as many attempts, five "
    "links track at least 9, direct search at most 2, and at most 4 with a deviation of .8 or with 3 times the rounds. "
    "What counts as tracked is so in plain words."
)
def homotopy_solves_what_direct_search_does_not() -> Finding:
    seeds, solved_by, wrong = range(1, 25, 2), dict[str, int](), 0
    for name, chain, rounds in (("homotopy", CHAINS[2], 30), ("direct", CHAINS[0], 30), ("three times", CHAINS[0], 90)):
        solved_by[name] = 0
        for seed in seeds:
            actions, tracked = homotopy(WORLD, seed, still, chain, rounds, 32, KEY.derive(seed))
            wrong += int(tracked != _by_hand(reference(seed), actions)[1])
            solved_by[name] += tracked
    with mock.patch.object(search, "DEVIATION", 0.8):
        zero = np.zeros((LENGTH, 3))
        solved_by["wider"] = sum(searched(WORLD, seed, zero, 30, 32, KEY.derive(seed))[1] for seed in seeds)
    most = max(solved_by["wider"], solved_by["three times"])
    holds = solved_by["homotopy"] >= 9 and solved_by["direct"] <= 2 and most <= 4 and wrong == 0
    return Finding(holds, say(**solved_by, wrong=wrong))


def _begun(seed: int = 0, recipe: Recipe = DEXTRACK, **settings: Any) -> RunContext:
    """A run as `hocket train` configures it; `settings` are of the hook."""
    task = tasks.find("grip")
    changed = {"seed": seed, **{f"hooks.0.{name}": value for name, value in settings.items()}}
    return build_parts(configured(recipe, "grip", task, changed), task)


def _acting(table: Array) -> Controller:
    """A controller that plays actions `[references, LENGTH, 3]`, whose observations tell object and time."""
    things = np.stack([reference(2 * number).thing for number in range(len(table))])

    def act(observations: NDArray[np.float32]) -> Array:
        wanted = observations[:, 18:21] * [0.25, 0.02, 0.01] + [0.95, 0.06, 0]
        number = np.abs(things[None] - wanted[:, None]).sum(2).argmin(1)
        return np.asarray(table[number, np.round(LENGTH * observations[:, 21]).astype(int)], np.float64)

    return act


@functools.cache
def _tracking() -> Mapping[int, tuple[Array, Array]]:
    """By reference of training, two sequences of actions that track it, of which the second earns more."""
    pairs = dict[int, tuple[Array, Array]]()
    for number in range(32):
        actions, tracked = homotopy(WORLD, 2 * number, still, CHAINS[2], 30, 32, KEY.derive("tracking", number))
        both = [actions, 0.98 * actions]
        if tracked and _by_hand(reference(2 * number), both[1])[1]:
            both.sort(key=lambda each, number=number: sum(_by_hand(reference(2 * number), each)[0]))  # type: ignore[misc]
            pairs[number] = both[0], both[1]
        if len(pairs) == 4:
            break
    return pairs


@claim(
    "In a round what the controller tracks by itself becomes a demonstration, in place of one that earns less, and "
    "nothing else does."
)
def a_round_keeps_the_better() -> Finding:
    parts = _begun(tries=0)
    hook = cast(Flywheel, parts.lead.recipe.hooks[0])
    memory, pairs = hook.begin(parts, None), _tracking()
    improved, spoilt, first, failed = pairs
    table = np.zeros((32, LENGTH, 3))
    memory["actions"][improved], table[improved] = torch.from_numpy(pairs[improved][0]), pairs[improved][1]
    memory["actions"][spoilt], table[spoilt] = torch.from_numpy(pairs[spoilt][1]), pairs[spoilt][0]
    memory["chain"][[improved, spoilt]] = 2
    table[first], table[failed] = pairs[first][0], 0.2 * pairs[failed][1]
    with mock.patch.object(method, "greedy", return_value=_acting(table)):
        after = run_async(hook.before(parts, 1, memory))
    wanted = {improved: (pairs[improved][1], 2), spoilt: (pairs[spoilt][1], 2), first: (pairs[first][0], 0)}
    off, wrong = 0.0, int(_by_hand(reference(2 * failed), table[failed])[1])
    for number in range(32):
        actions, chain = wanted.get(number, (np.zeros((LENGTH, 3)), -1))
        off = max(off, float(np.abs(after["actions"][number].numpy() - actions).max()))
        wrong += int(int(after["chain"][number]) != chain)
    return Finding(off < 1e-9 and wrong == 0, say(off=off, wrong=wrong))


@claim(
    "In a round the references without a demonstration that were tried least are searched, first by the chain of the "
    "most similar reference that has one, then by the others; what is recorded tracks in plain words. Only every "
    "eighth step has a round."
)
def a_round_searches_those_tried_least() -> Finding:
    parts = _begun(tries=4)
    hook = cast(Flywheel, parts.lead.recipe.hooks[0])
    memory, pairs = hook.begin(parts, None), _tracking()
    for chain, (number, (_, actions)) in zip((0, 1, 2, 2), pairs.items(), strict=True):
        memory["actions"][number], memory["chain"][number] = torch.from_numpy(actions), chain
    waiting = [number for number in range(32) if number not in pairs]
    memory["tried"][waiting[:9]] = 1
    calls = list[tuple[Any, ...]]()

    def noted(*arguments: Any) -> tuple[Array, int, int]:
        calls.append(arguments)
        return solved(*arguments)

    with mock.patch.object(method, "solved", noted):
        after = run_async(hook.before(parts, 9, memory))
    wrong = int([call[1] for call in calls] != [2 * number for number in waiting[9:13]])
    wrong += int((after["tried"] - memory["tried"]).nonzero().flatten().tolist() != waiting[9:13])
    wrong += int(any(run_async(hook.before(parts, step, memory)) is not memory for step in (2, 8, 10)))
    held, tries = dict(enumerate(memory["chain"].tolist())), 0
    for call in calls:
        number = call[1] // 2
        known = [each for each, chain in held.items() if chain >= 0]
        first = held[min(known, key=lambda other, number=number: _distance(number, other))]  # type: ignore[misc]
        wrong += int(call[4] != first) + int(call[3] != CHAINS)
        order = [first, *(each for each in range(3) if each != first)]
        for place, each in enumerate(order):
            actions, tracked = homotopy(
                WORLD, call[1], call[2], CHAINS[each], hook.rounds, hook.population, call[7].derive(each)
            )
            tries += 1
            if tracked:
                held[number] = each
                wrong += int(not np.array_equal(after["actions"][number].numpy(), actions)) + int(place > 2)
                break
    wrong += int(after["chain"].tolist() != [held[number] for number in range(32)]) + int(int(after["chains"]) != tries)
    wrong += sum(
        not _by_hand(reference(2 * number), after["actions"][number].numpy())[1] for number in held if held[number] >= 0
    )
    added = sum(held[number] >= 0 for number in waiting)
    return Finding(wrong == 0 and added > 0, say(wrong=wrong, chains=tries, added=added))


def _distance(number: int, other: int) -> float:
    """How far two references of training are apart, in plain words."""
    pair = reference(2 * number), reference(2 * other)
    (mass, width, offset), ends = pair[0].thing - pair[1].thing, pair[0].path[[20, 32], 0] - pair[1].path[[20, 32], 0]
    return float((mass / 0.25) ** 2 + (width / 0.02) ** 2 + (offset / 0.01) ** 2 + 16 * (ends**2).sum())


@claim(
    "A share of the episodes of references with demonstrations are these, forced, with the observations and rewards of "
    "what they do; no other episode is forced, and no unseen reference has any."
)
def demonstrations_take_the_place_of_episodes() -> Finding:
    parts = _begun(share=0.5)
    memory = HOOK.begin(parts, None)
    actions = KEY.derive("demonstrated").numpy().uniform(-1, 1, (16, LENGTH, 3))
    memory["actions"][:16], memory["chain"][:16] = torch.from_numpy(actions), 0
    hook = cast(Flywheel, parts.lead.recipe.hooks[0])
    player = cast(TaughtPlayer, hook.seat(parts.player, parts, 1, memory))
    scenarios = [parts.task.scenario("train", number) for number in range(96)]
    scenarios += [parts.task.scenario("eval", number) for number in range(8)]
    played_now = run_async(player.play([Assignment(each) for each in scenarios], key=parts.key))
    off, forced = 0.0, 0
    for place, item in enumerate(played_now):
        (turn,) = item.turns
        wrong_place = place >= 96 or place % 32 >= 16
        if turn.forced is not None and turn.forced.any():
            rewards, _ = _by_hand(reference(2 * (place % 32)), actions[place % 32])
            score = np.asarray(item.scores["reward"].value)
            off = max(off, float(np.abs(score - rewards).max()), float(wrong_place))
            off = max(off, float(np.abs(turn.action - actions[place % 32]).max()), float(not turn.forced.all()))
            off = max(off, float(item.scenario.id != scenarios[place].id))
            forced += 1
    return Finding(off < 1e-6 and 14 <= forced <= 34, say(off=off, forced=forced))


STEPS = 32
IMITATION_ALONE = DEXTRACK.but(
    name="imitation-alone", objective=Imitation(), regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"),)
)
ARMS: Mapping[str, tuple[Recipe, Mapping[str, Any]]] = {
    "both": (DEXTRACK, {}),
    "rl": (PPO, {}),
    "imitation": (IMITATION_ALONE, {}),
    "demonstrations only": (IMITATION_ALONE, {"share": 1.0}),
    "direct": (DEXTRACK, {"homotopy": False}),
}


@functools.cache
def _trained(arm: str, seed: int) -> tuple[float, list[float]]:
    """The share of 100 unseen references that is tracked greedily, and the demonstrations after each round."""
    recipe, settings = ARMS[arm]
    parts, counts = _begun(seed, recipe, **settings), list[float]()
    for step in range(1, STEPS + 1):
        counts.append(run_async(train_step(parts, step)).metrics.get("flywheel/demonstrations", 0.0))
    return _tracked(parts), counts[:: HOOK.every]


def _tracked(parts: RunContext) -> float:
    """The share of 100 unseen references that a policy tracks greedily."""
    return float(played(WORLD, np.arange(1, 200, 2), greedy(cast(JointPlayer, parts.player))).tracked.mean())


@claim(
    "As shipped, after 32 steps it tracks at least .8 of 100 unseen references in each of 2 seeds, and none before the "
    "first. RL alone tracks at most .1 in as many steps. Imitation alone, be a quarter or all of the episodes of such "
    "references demonstrations, tracks fewer in each seed, and fewer by .1 in the mean.",
    slow=True,
    learns=True,
)
def rl_with_imitation_tracks_more_than_either() -> Finding:
    shares = {arm: [_trained(arm, seed)[0] for seed in range(2)] for arm in list(ARMS)[:4]}
    untrained, both = _tracked(_begun()), shares["both"]
    alone = [shares["imitation"], shares["demonstrations only"]]
    fewer = all(other < share for arm in alone for other, share in zip(arm, both, strict=True))
    fewer &= all(np.mean(arm) <= np.mean(both) - 0.1 for arm in alone)
    holds = untrained == 0 and min(both) >= 0.8 and max(shares["rl"]) <= 0.1 and fewer
    return Finding(holds, say(**shares, untrained=untrained))


@claim(
    "The references with demonstrations become more from round to round, in each of 2 seeds, and are at least 20 of 32 "
    "after four; with direct search alone they are at most 2 (seed 0).",
    slow=True,
)
def demonstrations_become_more_over_rounds() -> Finding:
    counts, direct = [_trained("both", seed)[1] for seed in range(2)], _trained("direct", 0)[1]
    more = all(later > before for run in counts for before, later in itertools.pairwise(run))
    holds = more and min(run[-1] for run in counts) >= 20 and direct[-1] <= 2
    return Finding(holds, say(first=counts[0], second=counts[1], direct=direct))


claim.shipped(DEXTRACK, "hooks", steps=4, sees=lambda run: {"demonstrations": run.mean("flywheel/demonstrations")})

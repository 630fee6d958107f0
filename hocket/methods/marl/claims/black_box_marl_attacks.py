"""Claims about black-box attacks on a team, and the defence."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.methods.marl.black_box_marl_attacks.foraging import Foraging
from hocket.methods.marl.black_box_marl_attacks.method import BLACK_BOX_MARL_ATTACKS, Misled
from hocket.methods.marl.black_box_marl_attacks.observation_attack import (
    ATTACKS,
    Attacked,
    Contradiction,
    fitted,
    most_contradicting,
)
from hocket.recipes import find
from hocket.rollout.joint import JointPlayer
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding
from hocket.zoo.joint.particles import Spread

claim = Claims("black-box-marl-attacks", "its abstract")
PAIR, STEPS = "mpe:spread?agents=2", 20


def _views(course: Attacked | Spread | Foraging, steps: int = 6) -> list[NDArray[np.float64]]:
    """What 12 copies show of an episode of fixed moves."""
    played, moves = course.open(12), np.random.default_rng(0)
    played.reset(range(12), range(100, 112))
    found = []
    for _ in range(steps):
        found.append(np.concatenate(played.seen(), 1).astype(np.float64))
        played.step([moves.integers(0, seat.actions, 12) for seat in course.seats], np.ones(12, bool))
    return found


@claim("No number that is seen is ever off by more than the budget; a budget of 0 changes nothing, bit for bit.")
def no_number_that_is_seen_is_ever_off_by_more_than_the_budget_a() -> Finding:
    beyond, idle, least = 0.0, 0.0, 1.0
    for world in (Spread(count=3), Foraging(6, 2, 2)):
        true = _views(world)
        for attack in ATTACKS:
            for budget in (0.05, 0.5):
                off = np.abs(np.stack(_views(Attacked(world, attack, budget))) - np.stack(true))
                beyond = max(beyond, float(off.max()) - budget)
                least = min(least, float(off.max()) / budget)
            none = np.stack(_views(Attacked(world, attack, 0.0)))
            idle = max(idle, float(np.abs(none - np.stack(true)).max()))
    return Finding(beyond < 1e-5 and idle == 0 and least > 0.99, say(beyond_the_budget=beyond, of_budget_0=idle))


@claim(
    "Views are moved to where they contradict each other more than truth does, and more than 19 of 20 random corners."
)
def views_are_moved_to_where_they_contradict_each_other_more_than() -> Finding:
    world, least, share = Spread(count=2), np.inf, 0.0
    maps, rng = fitted(world, 1000), np.random.default_rng(1)
    for views in _views(world):
        ours, truth = (_apart(maps, one) for one in (views + 0.3 * most_contradicting(maps, views, 0.3), views))
        corners = np.stack([_apart(maps, views + 0.3 * rng.choice([-1.0, 1.0], views.shape)) for _ in range(1000)])
        least = min(least, float((ours / truth).min()))
        share = max(share, float((corners > ours).mean(0).max()))
    return Finding(least > 1 and share < 0.05, say(least_of_ours_over_truth=float(least), corners_above=share))


def _apart(maps: Contradiction, views: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the views are from what they say of each other, squared."""
    found: NDArray[np.float64] = ((views @ maps.matrix.T + maps.offset) ** 2).sum(-1)
    return found


@functools.cache
def _team(recipe: str, seed: int) -> RunContext:
    task = tasks.find(PAIR)
    parts = build_parts(
        configure([("recipe", find(recipe)), ("task", PAIR), ("steps", STEPS), ("seed", seed)], task), task
    )
    for step in range(1, STEPS + 1):
        asyncio.run(train_step(parts, step))
    return parts


@functools.cache
def _return(recipe: str, seed: int, attack: str = "", budget: float = 0.0, collected: int = 1000) -> float:
    """Mean return of an agent over 200 sampled episodes under an attack."""
    parts = _team(recipe, seed)
    player = parts.player
    assert isinstance(player, JointPlayer)
    if attack:
        player = replace(player, world=Attacked(player.world, attack, budget, collected), _open=[])
    asked = [Assignment(parts.task.scenario("eval", n), samples=1, decoding=Decoding()) for n in range(200)]
    played = asyncio.run(player.play(asked, key=parts.key.derive("check")))
    return fmean(parts.task.success(one) for one in played)


def _drops(recipe: str, attack: str, budget: float, seeds: Sequence[int], collected: int = 1000) -> list[float]:
    return [_return(recipe, seed) - _return(recipe, seed, attack, budget, collected) for seed in seeds]


@claim(
    "A trained pair loses more to contradicting views than to random noise of the same budget, and the more, the "
    "larger the budget (predicted); 1000 observations do within 10 percent what 10000 do.",
    slow=True,
)
def a_trained_pair_loses_more_to_contradicting_views_than_to_random() -> Finding:
    seeds = SEEDS[:4]
    ours, smaller, noise, many = (
        fmean(_drops("ippo", *given))
        for given in (
            ("views", 0.6, seeds),
            ("views", 0.3, seeds),
            ("noise", 0.6, seeds),
            ("views", 0.6, seeds, 10000),
        )
    )
    holds = ours > max(smaller, noise) and smaller > 0 and abs(ours - many) < 0.1 * abs(many)
    return Finding(holds, say(drop=ours, at_half_the_budget=smaller, of_noise=noise, from_10000=many))


@claim(
    "Trained with noise of budget 0.3 the pair loses less to noise and to contradicting views of budget 0.6.", slow=True
)
def trained_with_noise_of_budget_0_3_the_pair_loses_less_to_noise() -> Finding:
    seeds, own = SEEDS[:2], "black-box-marl-attacks"
    found = {
        attack: [fmean(_drops(recipe, attack, 0.6, seeds)) for recipe in ("ippo", own)] for attack in ("noise", "views")
    }
    clean = [fmean(_return(recipe, seed) for seed in seeds) for recipe in ("ippo", own)]
    holds = all(with_it < without for without, with_it in found.values())
    return Finding(holds, say(**{f"drop_{name}": of for name, of in found.items()}, clean=clean))


@claim("A team trains under noise of budget 0.3 in its own world; a task that is none of a joint world is refused.")
def a_team_trains_under_noise_of_budget_0_3_in_its_own_world_a_task() -> Finding:
    task = tasks.find(PAIR)
    parts = build_parts(configure([("recipe", BLACK_BOX_MARL_ATTACKS), ("task", PAIR)], task), task)
    alone = tasks.find("gym:CartPole-v1")
    other = build_parts(configure([("recipe", find("ppo"))], alone), alone)
    own, refused, seated = cast(JointPlayer, parts.player), 0, []
    for hook, run in ((Misled(), other), (Misled(attack="words"), parts), (Misled(budget=-1.0), parts)):
        try:
            hook.check(run)
        except ConfigurationError:
            refused += 1
    for hook, attack, budget in ((Misled(), "noise", 0.3), (Misled("views", 0.5), "views", 0.5)):
        hook.check(parts)
        one = cast(JointPlayer, hook.seat(own, parts, 1, None))
        seated.append(one.world == Attacked(own.world, attack, budget) and one._open == [])
    shipped = BLACK_BOX_MARL_ATTACKS.hooks == (Misled("noise", 0.3),)
    return Finding(all(seated) and refused == 3 and shipped, say(refused=refused))


claim.shipped(BLACK_BOX_MARL_ATTACKS, without={"hooks": ()})

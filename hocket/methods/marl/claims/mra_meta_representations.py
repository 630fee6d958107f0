"""MRA's claims."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, softmax
from hocket.methods.marl.mra_meta_representations import (
    MRA_META_REPRESENTATIONS,
    LatentNetwork,
    LatentStrategies,
    adapted,
    by_policies,
    crowds,
    information,
)

claim = Claims("mra-meta-representations", "arXiv:2108.12988")
SOLVER = cast(LatentStrategies, MRA_META_REPRESENTATIONS.solver)
UNSEEN = (6, 11)


@claim("What a player gains by its best place is that of all joint choices of the others, in plain loops.")
def exploitability_is_that_of_all_joint_choices() -> Finding:
    world, off = crowds(2), 0.0
    policies = softmax(Key.of(0).numpy().normal(size=(3, 3)))
    gaps = world.gaps(policies)
    for number, policy in enumerate(policies):
        for game, players in enumerate(world.players.tolist()):
            paid = np.zeros(3)
            for others in itertools.product(range(3), repeat=players - 1):
                chance = float(np.prod([policy[place] for place in others]))
                for place in range(3):
                    paid[place] += chance * (world.worth[place] - world.price[place] * others.count(place))
            off = max(off, abs(float(paid.max() - policy @ paid) - gaps[number, game]))
    return below(1e-12, off=off)


@claim("Its gradients are those of payoffs, as the others play now, and of the information, by differences.")
def its_gradients_are_differences() -> Finding:
    world, draw, off, largest = crowds(3), Key.of(1).numpy(), 0.0, 0.0
    network = LatentNetwork(draw.normal(size=(4, 2)), draw.normal(size=(5, 3)), draw.normal(size=(3, 6)))
    start, multiplier = network.policies(), 0.7
    chosen = world.gaps(start).argmin(0)
    idle = [latent for latent in range(4) if latent not in set(chosen.tolist())]
    pairs = [*enumerate(chosen.tolist()), *((int(world.gaps(start).min(0).argmax()), latent) for latent in idle)]

    def aim(moved: LatentNetwork) -> float:
        policies, total = moved.policies(), 0.0
        for game, latent in pairs:
            total += float(policies[latent] @ world.paid(start[latent], world.players[game])) / len(pairs)
        mean = policies.mean(0)
        entropies = [-float(item @ np.log(item)) for item in (mean, *policies)]
        return total + multiplier * (entropies[0] - sum(entropies[1:]) / 4)

    slopes = network.slope(SOLVER.upstream(world, start, multiplier))
    for name, slope in vars(slopes).items():
        for place in np.ndindex(slope.shape):
            moved = np.zeros_like(slope)
            moved[place] = 1e-6
            ends = [aim(replace(network, **{name: getattr(network, name) + sign * moved})) for sign in (1, -1)]
            off = max(off, abs((ends[0] - ends[1]) / 2e-6 - slope[place]))
            largest = max(largest, abs(float(slope[place])))
    spread = float(np.abs(by_policies(start)).max())
    return below(1e-8, largest > 1e-3 and spread > 0.01 and bool(idle), off=off)


@functools.cache
def _trained(seed: int, **settings: Any) -> Mapping[str, Array]:
    world, solver = crowds(4), replace(SOLVER, **settings)
    state = solver.init(world, Key.of(seed))
    for number in range(MRA_META_REPRESENTATIONS.steps):
        state, _ = solver.step(world, state, Key.of(number))
    return state


@claim(
    "With four latents every game of 2 to 16 players has a policy that can be exploited for less than 0.01; one latent "
    "leaves a gap of 0.3 (three seeds).",
    "section 5",
    slow=True,
    learns=True,
)
def with_enough_latents_every_game_has_an_equilibrium() -> Finding:
    world = crowds(4)
    worst = {
        count: [
            float(world.gaps(SOLVER.answer(world, _trained(seed, latents=count))).min(0).max()) for seed in range(3)
        ]
        for count in (4, 1)
    }
    return Finding(max(worst[4]) < 0.01 and min(worst[1]) > 0.3, say(four=max(worst[4]), one=min(worst[1])))


@claim(
    "For 6 and 11 players, who were in no game, no latent will do; forty gradient steps on the latent alone leave less "
    "than a tenth of the gap.",
    "section 4.3",
    slow=True,
)
def a_few_steps_on_the_latent_close_the_gap() -> Finding:
    before, after = [], []
    for seed, players in itertools.product(range(3), UNSEEN):
        _, gaps = adapted(crowds(4), _trained(seed), players, 40)
        before.append(float(gaps[0]))
        after.append(float(gaps[-1] / gaps[0]))
    return Finding(min(before) > 0.05 and max(after) < 0.1, say(before=min(before), share_left=max(after)))


@claim(
    "The multiplier holds the information at a bound that equilibria alone do not reach, at the price of payoffs.",
    slow=True,
)
def the_multiplier_holds_the_information() -> Finding:
    world = crowds(4)
    bound, free = _trained(0, least=0.6), _trained(0, least=0.0)
    amounts = [information(SOLVER.answer(world, state)) for state in (bound, free)]
    values = [world.value(SOLVER.answer(world, state)) for state in (bound, free)]
    held = amounts[0] > 0.55 > 0.45 > amounts[1] and float(free["multiplier"]) == 0 and values[0] < values[1]
    return Finding(held, say(bound=amounts[0], free=amounts[1], value_bound=values[0], value_free=values[1]))


claim.solved(MRA_META_REPRESENTATIONS, {"latents": 1}, better={"value": 1})

"""SEQUOIA's claims."""

from __future__ import annotations

import itertools
from typing import cast

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array
from hocket.methods.control.sequoia.method import SEQUOIA, CombinatorialQ, ReluNetwork, best_pulls, seen
from hocket.methods.control.sequoia.world import (
    FAMILIES,
    GOOD,
    LEVELS,
    CoupledArms,
    changes,
    coupled,
    coupling,
    enumerated,
)

claim = Claims("sequoia", "arXiv:2503.01919")
SOLVER = cast(CombinatorialQ, SEQUOIA.solver)


def _by_hand(network: ReluNetwork, x: Array) -> float:
    """A value in plain loops."""
    for layer in (network.first, network.second):
        x = np.array([max(0.0, sum(w * v for w, v in zip(row, x, strict=False)) + row[-1]) for row in layer])
    return float(sum(w * v for w, v in zip(network.third, x, strict=False)) + network.third[-1])


def _compared(arms: int, seed: int) -> tuple[float, int, int]:
    """Over the families: how far the programme's value is from the best of all pulls, pulls not allowed, all pulls."""
    rng, off, forbidden, count = Key.of(seed).derive("compared", arms).numpy(), 0.0, 0, 0
    for family in FAMILIES:
        network = ReluNetwork.drawn(4 * arms, (16, 8), Key.of(seed).derive(family))
        network = ReluNetwork.of(network.flat + 0.2 * rng.normal(size=len(network.flat)), 4 * arms, (16, 8))
        state, pulls = np.eye(3)[rng.integers(0, 3, arms)].ravel(), enumerated(family, arms)
        best, value = best_pulls(network, state, coupling(family, arms))
        every = [_by_hand(network, np.concatenate([state, pull])) for pull in pulls[:: max(1, len(pulls) // 200)]]
        fast = network.values(np.hstack([np.tile(state, (len(pulls), 1)), pulls]))
        off = max(off, abs(value - float(fast.max())), abs(value - _by_hand(network, np.concatenate([state, best]))))
        off = max(off, float(np.abs(fast[:: max(1, len(pulls) // 200)] - every).max()))
        forbidden += not (pulls == best).all(-1).any()
        count += len(pulls)
    return off, forbidden, count


@claim("With 3 and 4 arms the programme's maximum is the best of all pulls, for all four families of constraints.")
def the_programme_finds_the_best_of_all_pulls() -> Finding:
    outcomes = [_compared(arms, arms) for arms in (3, 4)]
    return below(2e-5, not any(out[1] for out in outcomes), off=max(out[0] for out in outcomes))


@claim("So it is with 8 and 12 arms.", "section 4", slow=True)
def so_it_is_with_up_to_12_arms() -> Finding:
    outcomes = [_compared(arms, 0) for arms in (8, 12)]
    held = max(out[0] for out in outcomes) < 2e-5 and not any(out[1] for out in outcomes)
    return Finding(held, say(off=max(out[0] for out in outcomes), of_pulls=sum(out[2] for out in outcomes)))


@claim("Its gradient is the difference of the loss when one weight moves.", "derived")
def its_gradient_is_the_difference_of_the_loss() -> Finding:
    rng, sizes = Key.of(0).numpy(), (6, 5)
    network = ReluNetwork.drawn(8, sizes, Key.of(1))
    flat = network.flat + 0.1 * rng.normal(size=len(network.flat))
    x, target = rng.normal(size=(7, 8)), rng.normal(size=7)

    def loss(weights: Array) -> float:
        return float(0.5 * ((ReluNetwork.of(weights, 8, sizes).values(x) - target) ** 2).mean())

    slope = ReluNetwork.of(flat, 8, sizes).slope(x, target)
    moved = 1e-6 * np.eye(len(flat))
    off = max(
        abs((loss(flat + item) - loss(flat - item)) / 2e-6 - mine) for item, mine in zip(moved, slope, strict=True)
    )
    return below(1e-8, float(np.abs(slope).max()) > 0.01, off=off)


@claim(
    "Arms of a world change independently, by whether they are pulled, and a step pays for those that are then good."
)
def arms_change_independently() -> Finding:
    world, off = coupled("matchings", 3), 0.0
    for state, action in itertools.product((0, 5, 13, 26), range(world.actions)):
        paid = 0.0
        for to, levels in enumerate(itertools.product(range(LEVELS), repeat=3)):
            chance = 1.0
            for arm in range(3):
                before = int(np.base_repr(state + 27, 3)[-3:][arm])
                chance *= changes(arm)[int(world.pulls[action, arm]), before, levels[arm]]
            off = max(off, abs(chance - world.transition[state, action, to]))
            paid += chance * sum(level == GOOD for level in levels)
        off = max(off, abs(paid - world.reward[state, action]))
        gained = world.reward[state] - world.pulls @ world.gains(state)
        off = max(off, float(np.ptp(gained)))
    return below(1e-12, off=off)


@claim(
    "A backup is `r + gamma max Q-`: after the copy's maxima are recorded they are those of all pulls.",
    "eq. 2",
)
def recorded_maxima_are_those_of_all_pulls() -> Finding:
    world = coupled("sets", 3)
    state = SOLVER.init(world, Key.of(0))
    for number in range(2):
        state, _ = SOLVER.step(world, state, Key.of(number))
    slow, pulls, off = SOLVER.network(world, state["slow"]), world.pulls, 0.0
    known = np.flatnonzero(~np.isnan(state["ahead"]))
    for item in known:
        x = np.hstack([np.tile(seen(world, item), (len(pulls), 1)), pulls])
        off = max(off, abs(float(slow.values(x).max()) - state["ahead"][item]))
    rows = set(state["states"][:, 1].tolist())
    return below(2e-5, 0 < len(known) <= len(rows), off=off)


def _myopic(world: CoupledArms) -> Array:
    """The policy that pulls what adds most to the next pay."""
    gains = np.array([world.gains(state) for state in range(world.states)])
    certain: Array = np.eye(world.actions)[(gains @ world.pulls.T).argmax(-1)]
    return certain


@claim(
    "With four arms it comes to at least 95 % of the optimum, pulled as sets and as matchings, where the programme of "
    "one step reaches at most two thirds.",
    "section 6",
    slow=True,
    learns=True,
)
def it_learns_what_the_programme_of_one_step_does_not() -> Finding:
    shares: dict[str, float] = {}
    myopic = []
    for family in ("sets", "matchings"):
        world = coupled(family, 4)
        state = SOLVER.init(world, Key.of(0))
        for number in range(SEQUOIA.steps):
            state, _ = SOLVER.step(world, state, Key.of(0).derive(number))
        shares[family] = world.value(SOLVER.answer(world, state)) / world.optimum
        myopic.append(world.value(_myopic(world)) / world.optimum)
    return Finding(min(shares.values()) >= 0.95 and max(myopic) < 2 / 3, say(**shares, one_step=max(myopic)))


claim.solved(SEQUOIA, {"later": False}, better={"value": 1}, steps=16)

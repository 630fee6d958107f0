"""The actions that track one reference: by direct search, or by homotopy, through versions with less gravity.

A search draws residuals of a base, sequences `[LENGTH, 3]`, from Gaussians that are fitted to the best of each round
(the cross-entropy method). A chain of shares of gravity is tracked in turn; the base of each is what tracked the one
before, that of the first what the controller does in it. All chains have as many rounds, which their links share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.methods.applications.dextrack.world import LENGTH, TRACKED, Array, Grip

CHAINS = ((1.0,), (0.5, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0))
"""Shares of gravity that are tracked in turn. The first is direct search."""

DEVIATION, LEAST, BEST = 0.3, 0.02, 0.15
"""Of residuals at first, what is added to it in each round, and the share of a round that it is fitted to."""

Controller = Callable[[NDArray[np.float32]], Array]
"""The actions `[B, 3]` for observations `[B, O]`."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """B attempts: observations `[B, LENGTH + 1, O]`, actions and rewards `[B, LENGTH, ..]`, and which tracked `[B]`."""

    observations: NDArray[np.float32]
    actions: Array
    rewards: Array
    tracked: NDArray[np.bool_]

    @property
    def earned(self) -> Array:
        """The returns `[B]`."""
        return np.asarray(self.rewards.sum(1), np.float64)


def played(world: Grip, seeds: NDArray[np.int64], act: Controller | Array) -> Tracks:
    """Attempts at the references of seeds `[B]` by a controller, or by actions `[B, LENGTH, 3]`."""
    count, hands = len(seeds), world.open(len(seeds))
    hands.reset(range(count), seeds.tolist())
    live, observations = np.ones(count, bool), [hands.seen()[0]]
    actions, rewards = np.zeros((count, LENGTH, 3)), np.zeros((count, LENGTH))
    for time in range(LENGTH):
        actions[:, time] = act(observations[-1]) if callable(act) else act[:, time]
        moved = hands.step([actions[:, time]], live)
        rewards[:, time] = np.where(live, moved.rewards[:, 0], 0)
        live &= ~moved.terminated[:, 0]
        observations.append(hands.seen()[0])
    return Tracks(np.stack(observations, 1), actions, rewards, np.asarray((hands.error <= TRACKED).all(1)))


def searched(world: Grip, seed: int, base: Array, rounds: int, population: int, key: Key) -> tuple[Array, bool]:
    """The best actions `[LENGTH, 3]` of a search around a base, and whether they track the reference."""
    mean, deviation = base, np.full(base.shape, DEVIATION)
    best, record, tracked = base, -np.inf, False
    for number in range(rounds):
        noise = key.derive(number).numpy().normal(size=(population, *base.shape))
        tried = np.clip(mean + deviation * noise, -1, 1)
        tracks = played(world, np.full(population, seed), tried)
        order = np.argsort(-tracks.earned, kind="stable")
        if tracks.earned[order[0]] > record:
            best, record, tracked = tried[order[0]], tracks.earned[order[0]], bool(tracks.tracked[order[0]])
        chosen = tried[order[: max(2, round(BEST * population))]]
        mean, deviation = chosen.mean(0), chosen.std(0) + LEAST
    return best, tracked


def homotopy(
    world: Grip, seed: int, act: Controller, chain: tuple[float, ...], rounds: int, population: int, key: Key
) -> tuple[Array, bool]:
    """The actions `[LENGTH, 3]` after a chain, and whether they track the reference in `world`'s own gravity."""
    shares = [replace(world, gravity=world.gravity * share) for share in chain]
    base, tracked = played(shares[0], np.array([seed]), act).actions[0], False
    for number, easier in enumerate(shares):
        each = rounds * (number + 1) // len(chain) - rounds * number // len(chain)
        base, tracked = searched(easier, seed, base, each, population, key.derive(number))
    return base, tracked


def solved(
    world: Grip,
    seed: int,
    act: Controller,
    chains: Sequence[tuple[float, ...]],
    first: int,
    rounds: int,
    population: int,
    key: Key,
) -> tuple[Array, int, int]:
    """Actions `[LENGTH, 3]` that track a reference, the number of their chain, and how many chains were tried.

    The chain `first` is tried first, then the others in their order; the number is -1 where none led there.
    """
    order = [first, *(number for number in range(len(chains)) if number != first)]
    actions = np.zeros((LENGTH, 3))
    for tries, number in enumerate(order, 1):
        actions, tracked = homotopy(world, seed, act, chains[number], rounds, population, key.derive(number))
        if tracked:
            return actions, number, tries
    return actions, -1, len(order)

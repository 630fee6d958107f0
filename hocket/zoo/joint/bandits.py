"""Bandits that nobody has met before: what an arm pays must be found out while playing."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Seat


@dataclass(frozen=True)
class BanditWorld:
    """`arms` that pay 1 with a probability of their own, uniform on [0, 1] and drawn anew in every episode, else 0.

    What is seen: which arm was pulled last (one-hot, zeros at first), what it paid, the share of the `length` pulls
    that are over, and `noise` numbers, uniform on [-1, 1], that mean nothing. So what was pulled before the last time
    must be remembered. What an arm pays at a time follows from the seed alone, whatever was pulled before. The joint
    state is the probabilities.
    """

    arms: int = 2
    length: int = 20
    noise: int = 0

    def __post_init__(self) -> None:
        if self.arms < 2 or self.length < 1 or self.noise < 0:
            raise ConfigurationError(
                f"task {self.name} needs at least 2 arms, 1 pull and no numbers of noise, not {self.arms}, "
                f"{self.length} and {self.noise}"
            )

    @property
    def name(self) -> str:
        return "recall:bandit"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(self.arms + 2 + self.noise, self.arms),)

    @property
    def joint(self) -> int:
        return self.arms

    def open(self, width: int) -> JointEnvironment:
        return _Pulls(self, width)


class _Pulls(JointEnvironment):
    def __init__(self, world: BanditWorld, width: int) -> None:
        self.world, self.drawn = world, world.arms + world.noise
        self.words = np.zeros((width, 1), np.uint64)
        self.chance = np.zeros((width, world.arms))
        self.last, self.paid, self.time = np.full(width, -1), np.zeros(width), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        self.words[places, 0] = [Key.of(seed).derive("bandit").word for seed in seeds]
        self.chance[places] = uniforms(self.words[places], np.arange(self.world.arms).astype(np.uint64))
        self.last[places] = -1
        self.paid[places], self.time[places] = 0.0, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world, arm = self.world, actions[0]
        counters = (world.arms + self.time[:, None] * self.drawn + arm[:, None]).astype(np.uint64)
        drawn = uniforms(self.words, counters)[:, 0]
        paid = (drawn < np.take_along_axis(self.chance, arm[:, None], 1)[:, 0]).astype(np.float64)
        self.last, self.paid = np.where(live, arm, self.last), np.where(live, paid, self.paid)
        self.time = self.time + live
        over = (self.time >= world.length)[:, None]
        return Moved(paid[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        pulled = self.last[:, None] == np.arange(self.world.arms)
        counters = 2 * self.world.arms + self.time[:, None] * self.drawn + np.arange(self.world.noise)
        blur = 2 * uniforms(self.words, counters.astype(np.uint64)) - 1
        parts = [pulled, self.paid[:, None], self.time[:, None] / self.world.length, blur]
        return [np.concatenate(parts, 1).astype(np.float32)]

    def state(self) -> NDArray[np.float32]:
        return self.chance.astype(np.float32)


def bayes_optimal(world: BanditWorld) -> float:
    """The largest expected return of whoever knows how the probabilities are drawn, by backward induction."""

    @functools.cache
    def worth(counts: tuple[int, ...], left: int) -> float:
        """`counts` are successes and failures of each arm."""
        if not left:
            return 0.0
        best = 0.0
        for arm in range(world.arms):
            won, lost = counts[2 * arm : 2 * arm + 2]
            chance = (won + 1) / (won + lost + 2)
            more = [list(counts), list(counts)]
            more[0][2 * arm] += 1
            more[1][2 * arm + 1] += 1
            after = [worth(tuple(outcome), left - 1) for outcome in more]
            best = max(best, chance * (1 + after[0]) + (1 - chance) * after[1])
        return best

    return worth((0, 0) * world.arms, world.length)


def last_pull_optimal(world: BanditWorld) -> float:
    """The largest expected return of whoever sees the last pull, what it paid and the time alone, for two arms.

    Such a policy stays or changes by what it saw; by symmetry of the arms the choice is between four rules at each
    time, and the expectation is over the probabilities on a grid of 200 x 200, exact as far as a midpoint rule is.
    """
    if world.arms != 2:
        raise ConfigurationError(f"task {world.name}: rules of the last pull are enumerated for 2 arms alone")
    middle = (np.arange(200) + 0.5) / 200
    first, second = (axis.ravel() for axis in np.meshgrid(middle, middle))
    chance, start = np.stack([first, second]), np.full((2, first.size), 0.5)

    def earned(rules: Sequence[tuple[bool, bool]]) -> float:
        share, total = start.copy(), 0.0
        for stay in (*rules, (True, True)):
            total += float((share * chance).sum(0).mean())
            staying = share * (chance * stay[0] + (1 - chance) * stay[1])
            share = staying + (share - staying)[::-1]
        return total

    every = [(if_paid, if_not) for if_paid in (True, False) for if_not in (True, False)]
    best = [every[1]] * (world.length - 1)
    for _ in range(3):  # Rule by rule: staying where it paid is best at every time, and this finds it so.
        for place in range(len(best)):
            best[place] = max(every, key=lambda rule: earned([*best[:place], rule, *best[place + 1 :]]))
    return earned(best)

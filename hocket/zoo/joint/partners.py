"""A partner of an unknown kind: the best move is the one that the partner makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Seat

_DRAWS = 3
"""Uniforms of a round besides noise: its situation, whether the partner slips, and what it then does."""


@dataclass(frozen=True)
class Partner:
    """`length` rounds beside a scripted partner of one of `kinds` kinds, drawn evenly and anew in every episode.

    A round begins with a situation, one of `kinds`, drawn evenly, that both see. A partner of kind k does
    `(k + situation) mod kinds` in it, except that it slips with chance `slip`: then it does anything, drawn evenly.
    Both move at once, and who does as the partner does earns 1, else 0. So a move tells the kind only together with the
    situation that it was made in, and only nearly; what the agent does tells nothing.

    What is seen: the situation (one-hot), the last one and what the partner did in it (one-hot, zeros at first), the
    share of rounds that are over, with `told` the kind (one-hot), and `noise` numbers, uniform on [-1, 1], that mean
    nothing. The joint state is the kind, one-hot. What a partner does follows from the seed alone.
    """

    kinds: int = 3
    length: int = 20
    slip: float = 0.4
    noise: int = 4
    told: bool = False

    def __post_init__(self) -> None:
        if self.kinds < 2 or self.length < 1 or self.noise < 0 or not 0 <= self.slip <= 1:
            raise ConfigurationError(
                f"task {self.name} needs at least 2 kinds, 1 round, no numbers of noise and a slip in [0, 1], not "
                f"{self.kinds}, {self.length}, {self.noise} and {self.slip}"
            )

    @property
    def name(self) -> str:
        return "recall:partner"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat((4 if self.told else 3) * self.kinds + 1 + self.noise, self.kinds),)

    @property
    def joint(self) -> int:
        return self.kinds

    def open(self, width: int) -> JointEnvironment:
        return _Rounds(self, width)


class _Rounds(JointEnvironment):
    def __init__(self, world: Partner, width: int) -> None:
        self.world = world
        self.words = np.zeros((width, 1), np.uint64)
        self.kind, self.time = np.zeros(width, np.int64), np.zeros(width, np.int64)
        self.last = np.full((width, 2), -1)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        keys = [Key.of(seed).derive("partner") for seed in seeds]
        self.words[places, 0] = [key.word for key in keys]
        self.kind[places] = [key.derive("kind").word % self.world.kinds for key in keys]
        self.last[places], self.time[places] = -1, 0
        return {}

    def _drawn(self, first: int, count: int) -> NDArray[np.float64]:
        """Uniforms of the round, `[B, count]`."""
        counters = self.time[:, None] * (_DRAWS + self.world.noise) + first + np.arange(count)
        return uniforms(self.words, counters.astype(np.uint64))

    def _situation(self) -> NDArray[np.int64]:
        return (self._drawn(0, 1)[:, 0] * self.world.kinds).astype(np.int64)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world, situation = self.world, self._situation()
        slips, anything = self._drawn(1, 2).T
        intended = (self.kind + situation) % world.kinds
        done = np.where(slips < world.slip, (anything * world.kinds).astype(np.int64), intended)
        paid = (actions[0] == done).astype(np.float64)
        self.last = np.where(live[:, None], np.stack([situation, done], 1), self.last)
        self.time = self.time + live
        over = (self.time >= world.length)[:, None]
        return Moved(paid[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        kinds, every = self.world.kinds, np.arange(self.world.kinds)
        situation = self._situation()[:, None] == every
        last = (self.last[:, :, None] == every).reshape(len(situation), 2 * kinds)
        parts = [situation, last, (self.time / self.world.length)[:, None]]
        if self.world.told:
            parts.append(self.state())
        parts.append(2 * self._drawn(_DRAWS, self.world.noise) - 1)
        return [np.concatenate(parts, 1).astype(np.float32)]

    def state(self) -> NDArray[np.float32]:
        return np.eye(self.world.kinds, dtype=np.float32)[self.kind]


def informed_optimal(world: Partner) -> float:
    """The largest expected return of whoever knows the partner's kind."""
    return world.length * (1 - world.slip + world.slip / world.kinds)


def last_round_optimal(world: Partner) -> float:
    """The largest expected return of whoever sees this round's situation and the last round alone."""
    right, wrong = _chances(world)
    return 1 / world.kinds + (world.length - 1) * (right**2 + (world.kinds - 1) * wrong**2)


def bayes_optimal(world: Partner, episodes: int = 20000) -> float:
    """The largest expected return of whoever remembers all rounds, the mean over `episodes` histories.

    After n_k rounds that fit kind k, its posterior is in proportion to `(right / wrong)^n_k`; the best move is that of
    the likeliest kind, which is right with chance `wrong + (right - wrong) p_k`.
    """
    right, wrong = _chances(world)
    draws = Key.of(0).derive("histories").numpy()
    fits = np.zeros((episodes, world.kinds))
    odds = np.log(right / max(wrong, 1e-300))
    total = 0.0
    for _ in range(world.length):
        weight = np.exp(odds * (fits - fits.max(1, keepdims=True)))
        total += float((wrong + (right - wrong) * (weight / weight.sum(1, keepdims=True)).max(1)).mean())
        slipped = draws.random(episodes) < world.slip  # Kinds are alike, so the true one may be the first.
        fitted = np.where(slipped, draws.integers(0, world.kinds, episodes), 0)
        fits[np.arange(episodes), fitted] += 1
    return total


def _chances(world: Partner) -> tuple[float, float]:
    """That a move fits the partner's own kind, and that it fits a certain other one."""
    return 1 - world.slip + world.slip / world.kinds, world.slip / world.kinds

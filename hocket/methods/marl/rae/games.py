"""Games of two whose pay is a table of both moves, and whose hands tremble."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True)
class MatrixGame:
    """Two players move at once.

    Attributes:
        pay: of each, by its own move and the other's: `[A, B]` and `[B, A]`. tremble: the chance that a player's move
            is drawn evenly instead. name: of the world.

    Raises:
        ConfigurationError: for tables that do not fit together, numbers that are none, or a tremble outside [0, 1].
    """

    pay: tuple[Array, Array]
    tremble: float = 0.0
    name: str = "game"

    def __post_init__(self) -> None:
        first, second = self.pay
        if first.ndim != 2 or first.shape != second.shape[::-1] or not first.size:
            raise ConfigurationError(
                f"{self.name}: pay has shapes {first.shape} and {second.shape}; give [A, B], [B, A]"
            )
        if not (np.isfinite(first).all() and np.isfinite(second).all()) or not 0 <= self.tremble <= 1:
            raise ConfigurationError(f"{self.name}: pay must be finite numbers, and tremble = {self.tremble} in [0, 1]")

    @property
    def moves(self) -> tuple[int, int]:
        """How many each player has."""
        return self.pay[0].shape[0], self.pay[1].shape[0]

    @property
    def optimum(self) -> float:
        return 0.0

    def met(self, mixes: Array, player: int) -> Array:
        """How likely a player meets each of the other's moves, trembles included."""
        count = self.moves[1 - player]
        return (1 - self.tremble) * mixes[1 - player, :count] + self.tremble / count

    def moments(self, mixes: Array, player: int) -> tuple[Array, Array]:
        """Means `[A]` and covariances `[A, A]` of what each of a player's moves earns against the other's mix."""
        pay, met = self.pay[player], self.met(mixes, player)
        mean = pay @ met
        return mean, (pay * met) @ pay.T - np.outer(mean, mean)

    def value(self, mixes: Array) -> float:
        """Less what both could gain on average by their best moves, from mixes `[2, moves]`, padded by 0."""
        gains = 0.0
        for player, count in enumerate(self.moves):
            mean, _ = self.moments(mixes, player)
            gains += float(mean.max() - mean @ mixes[player, :count])
        return -max(gains, 0.0)


def stag_hunt(percent: int) -> MatrixGame:
    """The stag pays 4 to both who hunt it and 0 to one alone, the hare 3 to whoever takes it; hands tremble."""
    pay = np.array([[4.0, 0.0], [3.0, 3.0]])
    return MatrixGame((pay, pay), percent / 100, f"stag-hunt:{percent}")


def trust(steps: int) -> MatrixGame:
    """Two walk on a line: meeting at its far end pays 4 to both, the orchard at its near end 3 to whoever ends there.

    A move is a whole path of steps back, still or on, from the cell beside the orchard; the far end is as many cells
    away as there are steps, so that a single path reaches it. Elsewhere, or alone at the far end, is 0. One path in
    twenty is taken by mistake.
    """
    paths = list(itertools.product((-1, 0, 1), repeat=steps))
    ends = np.array([_walked(path, steps) for path in paths])
    far, home = ends == steps + 1, ends == 0
    pay = np.where(far[:, None] & far[None, :], 4.0, np.where(home[:, None], 3.0, 0.0))
    return MatrixGame((pay, pay), 0.05, f"trust:{steps}")


def _walked(path: tuple[int, ...], steps: int) -> int:
    place = 1
    for step in path:
        place = min(max(place + step, 0), steps + 1)
    return place


def zero_sum(rows: int, columns: int) -> MatrixGame:
    """What one earns the other pays, drawn evenly from [-1, 1]."""
    pay = Key.of(0).derive("zero-sum", rows, columns).numpy().uniform(-1, 1, (rows, columns))
    return MatrixGame((pay, -pay.T), name=f"zero-sum:{rows}x{columns}")


STAG_HUNT = WorldFamily(name="stag-hunt", description="for two whose hands tremble, in %", make=stag_hunt, size=(5,))
TRUST = WorldFamily(name="trust", description="two who may meet far away, by paths of steps", make=trust, size=(3,))
ZERO_SUM = WorldFamily(name="zero-sum", description="rows by columns, for two", make=zero_sum, size=(4, 4))

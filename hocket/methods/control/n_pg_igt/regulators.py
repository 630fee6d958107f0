"""Linear regulators with noise: gains of each step as policy, their returns exact, the best by a Riccati recursion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True)
class Drive:
    """An episode: states `[H + 1, 2]`, how far each push was from its mean `[H]`, and rewards `[H]`."""

    states: Array
    off: Array
    rewards: Array


@dataclass(frozen=True, eq=False)
class Regulator:
    """`x' = A x + b u + w`, `u ~ N(-k_t x, spread^2)`, with the reward `-(x'x + effort u^2) / H`, from `x ~ N(0, I)`.

    An answer is a gain for each step, `[H, 2]`; its value is the exact return, noise of the pushes included.

    Attributes:
        horizon: H. spread: of the pushes. effort: what they cost. noise: the standard deviation of w.
    """

    horizon: int
    spread: float = 0.5
    effort: float = 0.1
    noise: float = 0.1
    name: str = "regulator"

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.spread <= 0 or self.effort <= 0 or self.noise < 0:
            raise ConfigurationError(
                f"{self.name}: horizon = {self.horizon}, spread = {self.spread}, effort = {self.effort}, noise = "
                f"{self.noise}; the first is at least 1, spread and effort positive, and noise not negative"
            )

    @property
    def move(self) -> Array:
        """A, `[2, 2]`."""
        return np.array([[1.0, 0.2], [0.0, 0.9]])

    @property
    def push(self) -> Array:
        """b, `[2]`."""
        return np.array([0.3, 0.6])

    @property
    def shape(self) -> tuple[int, int]:
        """Of the gains."""
        return self.horizon, 2

    @cached_property
    def best(self) -> Array:
        """The best gains, `[H, 2]`: `k = b'PA / (effort + b'Pb)`, `P = I + A'P(A - bk)`, from the end."""
        gains, after = np.zeros(self.shape), np.zeros((2, 2))
        for time in reversed(range(self.horizon)):
            gains[time] = self.push @ after @ self.move / (self.effort + self.push @ after @ self.push)
            after = np.eye(2) + self.move.T @ after @ (self.move - np.outer(self.push, gains[time]))
        return gains

    @cached_property
    def optimum(self) -> float:
        return self.value(self.best)

    def value(self, gains: Array) -> float:
        """By the second moment of the state, step by step."""
        moment, cost = np.eye(2), 0.0
        for gain in gains:
            cost += float(np.trace(moment) + self.effort * (gain @ moment @ gain + self.spread**2))
            closed = self.move - np.outer(self.push, gain)
            moment = closed @ moment @ closed.T + self.spread**2 * np.outer(self.push, self.push)
            moment += self.noise**2 * np.eye(2)
        return -cost / self.horizon

    def drawn(self, gains: Array, key: Key) -> Drive:
        """An episode."""
        draw = key.numpy()
        return self.driven(gains, draw.normal(size=(self.horizon + 1, 2)), draw.normal(size=self.horizon))

    def driven(self, gains: Array, noise: Array, off: Array) -> Drive:
        """The episode of standard normal `noise` `[H + 1, 2]`, the first of which is the start, and `off` `[H]`."""
        states, rewards, off = np.zeros((self.horizon + 1, 2)), np.zeros(self.horizon), self.spread * off
        states[0] = noise[0]
        for time, gain in enumerate(gains):
            state, push = states[time], off[time] - gain @ states[time]
            rewards[time] = -(state @ state + self.effort * push**2) / self.horizon
            states[time + 1] = self.move @ state + self.push * push + self.noise * noise[time + 1]
        return Drive(states, off, rewards)

    def slope(self, drive: Drive) -> Array:
        """The gradient of `sum_t log pi(u_t | x_t) R_t` in the gains, R the rewards to go, `[H, 2]`."""
        return self._scores(drive) * _to_go(drive)[:, None]

    def curvature(self, drive: Drive, vector: Array) -> Array:
        """`slope <grad log p, v> + Hess v`, on average the Hessian of the return times `v` `[H, 2]`."""
        scores, seen = self._scores(drive), drive.states[:-1]
        bent = -seen * ((seen * vector).sum(-1) * _to_go(drive) / self.spread**2)[:, None]
        found: Array = self.slope(drive) * float((scores * vector).sum()) + bent
        return found

    def _scores(self, drive: Drive) -> Array:
        found: Array = -drive.states[:-1] * (drive.off / self.spread**2)[:, None]
        return found


def _to_go(drive: Drive) -> Array:
    return drive.rewards[::-1].cumsum()[::-1]


def regulator(horizon: int) -> Regulator:
    """A place and a speed pushed towards 0 in so many steps."""
    return Regulator(horizon, name=f"regulator:{horizon}")


REGULATOR = WorldFamily(
    name="regulator", description="a linear regulator with noise, of so many steps", make=regulator, size=(3,)
)
